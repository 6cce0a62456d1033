// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
)

// CardStatus is the status of a card. Members that Status has as well have the same names in
// JSON; interface is the name of the card.
type CardStatus struct {
	Card          string            `json:"interface"`
	Attached      *time.Time        `json:"attached"`       // null: no agent runs
	UptimeSeconds int64             `json:"uptime_s"`       // uptime of the agent
	Version       string            `json:"version"`        // version of the agent
	BinaryVersion string            `json:"binary_version"` // version of this command
	Registers     string            `json:"registers"`      // version of their definition
	BuildID       string            `json:"build_id"`       // build of the card; "" = not known
	PolicyMode    string            `json:"policy_mode"`
	Node          uint32            `json:"node"`
	NodeFile      string            `json:"node_file,omitempty"`
	Agent         Agent             `json:"agent"`
	Destinations  int               `json:"destinations"`
	Stamped       int               `json:"stamped_destinations"`
	Ports         []CardPort        `json:"ports"`
	Counters      map[string]uint64 `json:"counters"` // all that are not zero
	Problems      []string          `json:"problems"`
}

// CardPort is one port of a card.
type CardPort struct {
	Port         int    `json:"port"`
	Enabled      bool   `json:"enabled"`
	Link         bool   `json:"link"`
	RateBps      uint64 `json:"rate_bps"`
	MTU          uint32 `json:"mtu"`
	Destinations int    `json:"destinations"`
}

// CardInput has the data from which Judge completes a CardStatus.
type CardInput struct {
	Params    bpf.PolicyParams
	Rows      []bpf.Row
	Now       time.Time
	BeatLimit time.Duration // an agent whose heartbeat is older does not work
}

// Judge completes the status by rows and parameters, and finds the problems.
func (s *CardStatus) Judge(in CardInput) {
	s.PolicyMode, s.Destinations = fourcase.Mode(in.Params.Mode).String(), len(in.Rows)
	s.Problems = []string{}
	say := func(format string, args ...any) { s.Problems = append(s.Problems, fmt.Sprintf(format, args...)) }
	fresh := 0
	for _, r := range in.Rows {
		if r.Regs.Caps&bpf.CapStamp != 0 {
			s.Stamped++
		}
		if r.Regs.Node == 0 {
			fresh++
		}
	}
	if s.Attached != nil {
		s.UptimeSeconds = int64(max(0, in.Now.Sub(*s.Attached)) / time.Second)
	}
	switch {
	case !s.Agent.Alive:
		say("no agent runs: the last rates stay; run `softroce-card attach %s` to start one", s.Card)
	case s.Agent.HeartbeatAgeNs > int64(in.BeatLimit):
		say("the agent (pid %d) lives but its heartbeat is %s old: end it and attach again", s.Agent.PID, cli.Nanos(s.Agent.HeartbeatAgeNs))
	case fresh > 0:
		say("%d nodes have no rate yet: the agent begins with them within a second", fresh)
	}
	if s.Destinations == 0 {
		say("the card has no nodes: run `softroce-card attach --nodes FILE %s`", s.Card)
	}
	if s.Agent.Alive && s.Version != s.BinaryVersion {
		say("the agent is of version %s, this binary is %s: end the agent and attach again", s.Version, s.BinaryVersion)
	}
	if err := bpf.ParamsAs[fourcase.Params](&in.Params).Validate(); err != nil {
		say("the parameters of the policy do not fit together: %v", err)
	}
}

// Write prints the status for people.
func (s *CardStatus) Write(w io.Writer) {
	if s.Attached == nil {
		fmt.Fprintf(w, "%s: not attached, registers %s\n", s.Card, s.Registers)
	} else {
		fmt.Fprintf(w, "%s: attached for %s, registers %s\n", s.Card, cli.Lasted(time.Duration(s.UptimeSeconds)*time.Second), s.Registers)
	}
	agent := "none"
	if s.Agent.Alive {
		agent = fmt.Sprintf("pid %d, heartbeat %s ago", s.Agent.PID, cli.Nanos(s.Agent.HeartbeatAgeNs))
	}
	node := "not numbered"
	if s.Node != 0 {
		node = fmt.Sprintf("number %d", s.Node)
	}
	if s.NodeFile != "" {
		node += ", the others from " + s.NodeFile
	}
	build := dashUnless(s.BuildID != "", s.BuildID)
	pairs := [][2]string{
		{"agent", agent}, {"build", build}, {"policy", s.PolicyMode}, {"node", node},
		{"destinations", fmt.Sprintf("%d, %d of them stamped", s.Destinations, s.Stamped)},
	}
	for _, p := range s.Ports {
		state := "off"
		switch {
		case p.Enabled && p.Link:
			state = "link up"
		case p.Enabled:
			state = "no link"
		}
		pairs = append(pairs, [2]string{fmt.Sprintf("port %d", p.Port), fmt.Sprintf("%s, %sbit/s, MTU %d, %d destinations", state, cli.Rate(p.RateBps), p.MTU, p.Destinations)})
	}
	cli.Pairs(w, "  ", pairs)
	for _, p := range s.Problems {
		fmt.Fprintf(w, "  ! %s\n", p)
	}
}
