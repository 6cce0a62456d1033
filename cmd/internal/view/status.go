// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/inspect"
	"github.com/softroce/softroce-xdp/loader/pacer"
)

// Status of one attached interface.
type Status struct {
	Interface     string            `json:"interface"`
	Attached      time.Time         `json:"attached"`
	UptimeSeconds int64             `json:"uptime_s"`
	Version       string            `json:"version"`        // version of the programs in the kernel
	BinaryVersion string            `json:"binary_version"` // version of this command
	XDPMode       loader.XDPMode    `json:"xdp_mode"`
	Egress        loader.EgressHook `json:"egress"`
	Pacer         pacer.Kind        `json:"pacer"`
	OwnQdisc      bool              `json:"own_qdisc"`
	Clock         loader.StampClock `json:"clock"`
	PolicyMode    string            `json:"policy_mode"`
	RateBps       uint64            `json:"rate_bps"`
	RateFrom      string            `json:"rate_from"`
	InitialBps    uint64            `json:"initial_rate_bps"`
	MTU           uint32            `json:"mtu"`
	Node          uint32            `json:"node"`
	NodeFile      string            `json:"node_file,omitempty"`
	Agent         Agent             `json:"agent"`
	Destinations  int               `json:"destinations"`
	Paced         int               `json:"paced_destinations"` // destinations with a class of their own (htb)
	Stamped       int               `json:"stamped_destinations"`
	Priority      *PriorityState    `json:"priority,omitempty"`
	Limits        *Limits           `json:"limits,omitempty"`
	NIC           *device.Status    `json:"nic,omitempty"`       // the device that the agent serves
	NICAllow      []netip.Prefix    `json:"nic_allow,omitempty"` // the hosts of that device; none: all
	Counters      map[string]uint64 `json:"counters"`            // all that are not zero
	Problems      []string          `json:"problems"`

	// Findings are the differences between the interface and what attach has set up. Problems
	// has their texts.
	Findings []inspect.Finding    `json:"findings"`
	Repairs  map[inspect.Kind]int `json:"repairs,omitempty"` // repairs by the present agent

	// VLAN: the interface hides VLAN tags, and what to do about it (loader.HiddenTags). It is no problem where the
	// switch delivers no tagged frames.
	VLAN string `json:"vlan,omitempty"`

	// OtherNamespace: it is attached in another network namespace than this command's.
	OtherNamespace bool   `json:"other_namespace"`
	where          string // name of the namespace, in words

	ServesNIC  bool `json:"-"` // the agent serves a device, or would
	NICAnswers bool `json:"-"` // the device has answered, so NIC is complete
}

// Agent is the process behind the interface.
type Agent struct {
	PID            int   `json:"pid"`
	Alive          bool  `json:"alive"`
	HeartbeatAgeNs int64 `json:"heartbeat_age_ns"`
}

// StatusInput has the data from which a Status is made.
type StatusInput struct {
	State      loader.State
	Config     bpf.Config
	Rows       []loader.Row
	Limits     loader.Limits
	Stats      []loader.Stat
	AgentAlive bool
	IfaceAlive bool
	NameNow    string    // present name of the interface; empty: not known
	HiddenTags string    // message of loader.HiddenTags
	Version    string    // version of this binary
	Now        time.Time // wall clock
	MonoNs     uint64    // the heartbeat's clock

	NIC      *device.Status // status of the device that the agent serves; nil: it serves none
	NICError error          // reason why NIC is not known

	Findings []inspect.Finding // findings of an inspection of the interface
	Report   inspect.Report    // report of the agent
}

// StatusOf makes the status of one interface, with its problems.
func StatusOf(in StatusInput) *Status {
	s := &Status{
		Interface: in.State.Interface, Attached: in.State.Attached,
		UptimeSeconds: int64(max(0, in.Now.Sub(in.State.Attached)) / time.Second),
		Version:       in.State.Version, BinaryVersion: in.Version,
		XDPMode: in.State.XDPMode, Egress: in.State.Egress, Pacer: in.State.Pacer, OwnQdisc: in.State.OwnQdisc,
		Clock: in.State.Clock, PolicyMode: fourcase.Mode(in.Config.Policy.Mode).String(),
		RateBps: in.Config.LinkRateBps, RateFrom: in.State.RateFrom, InitialBps: in.Config.InitialRateBps,
		MTU: in.Config.Mtu, Node: in.Config.Node, NodeFile: in.State.NodeFile,
		Agent: Agent{
			PID: in.State.AgentPID, Alive: in.AgentAlive,
			HeartbeatAgeNs: int64(in.MonoNs - min(in.Config.HeartbeatNs, in.MonoNs)),
		},
		Priority:  priorityStateOf(&in.Config),
		Limits:    limitsOf(&in.Limits, in.MonoNs),
		NIC:       in.NIC,
		VLAN:      in.HiddenTags,
		ServesNIC: in.State.NIC != nil, NICAnswers: in.NIC != nil && in.NICError == nil,
		Destinations: len(in.Rows), Counters: map[string]uint64{}, Problems: []string{},
		Findings: []inspect.Finding{}, Repairs: in.Report.Repairs,
	}
	if in.State.NIC != nil {
		s.NICAllow = in.State.NIC.Allow
	}
	for _, r := range in.Rows {
		if r.Regs.Caps&bpf.CapStamp != 0 {
			s.Stamped++
		}
		if r.Regs.ClassId != 0 {
			s.Paced++
		}
	}
	for _, c := range in.Stats {
		if c.Count > 0 {
			s.Counters[c.Name] = c.Count
		}
	}
	s.judge(in)
	return s
}

// Elsewhere marks the status of an interface in another network namespace; where describes it.
// Its problems are omitted: commands that work there show them.
func (s *Status) Elsewhere(where string) {
	s.OtherNamespace, s.where, s.Problems, s.Findings, s.VLAN = true, where, []string{}, []inspect.Finding{}, ""
}

// worrying are the counters whose growth is a problem, and what to do about it.
var worrying = []struct{ name, advice string }{
	{"tx_table_full", "destinations found no room in the table: attach with a larger --max-destinations"},
	{"tx_too_big", "packets left unstamped because the option does not fit the MTU: see `softroce-xdp features %s`"},
	{"rx_strip_failed", "the kernel refused to shorten packets; harmless, but report it with the driver's name"},
	{"tx_stamp_failed", "the kernel refused to lengthen packets, which left unstamped; report it with the driver's name"},
	{"events_lost", "the agent was too slow for the events of the data plane; destinations may have been numbered late"},
	{"active_lost", "the queue of active destinations was full; their rates were not adjusted in time"},
	{"tx_gso", "something sends segmentation-offload packets to port 4791, which are not stamped"},
}

func (s *Status) judge(in StatusInput) {
	say := func(format string, args ...any) { s.Problems = append(s.Problems, fmt.Sprintf(format, args...)) }
	name := s.Interface
	if !in.IfaceAlive {
		say("the interface that was attached is gone: run `softroce-xdp clean`")
		return
	}
	if now := in.NameNow; now != "" && now != name {
		say("the interface is called %s now: give it its name back, or run `softroce-xdp detach %s` and attach %s", now, name, now)
	}
	timeout := int64(in.Config.HeartbeatTimeoutNs)
	switch {
	case !in.AgentAlive && s.Agent.HeartbeatAgeNs > timeout && timeout > 0:
		say("no agent runs: traffic goes unpaced and no new peer is stamped; run `softroce-xdp attach %s` to start one (see %s.log)", name, name)
	case !in.AgentAlive:
		say("no agent runs: the last rates stay until the heartbeat times out; run `softroce-xdp attach %s` to start one", name)
	case s.Agent.HeartbeatAgeNs > timeout && timeout > 0:
		say("the agent (pid %d) lives but its heartbeat is %s old: traffic goes unpaced; see its log, and run `softroce-xdp attach --upgrade %s` to replace it",
			s.Agent.PID, cli.Nanos(s.Agent.HeartbeatAgeNs), name)
	}
	if in.NICError != nil {
		say("the device of %s does not answer (%v): see %s.log, and run `softroce-xdp attach --upgrade %s` to start it again", name, in.NICError, name, name)
	}
	if s.Version != s.BinaryVersion {
		say("the programs are of version %s, this binary is %s: run `softroce-xdp attach --upgrade %s`, which loses no packet", s.Version, s.BinaryVersion, name)
	}
	if s.RateFrom == "default" {
		say("the driver does not say how fast the link is, %s is assumed: attach with --rate", cli.Rate(s.RateBps))
	}
	if s.Priority != nil && s.Priority.Scaled {
		say("the minimums of the nodes that send exceed the %sbit/s that there are: none gets all of its own; lower them in %s", cli.Rate(s.Priority.CapacityBps), s.NodeFile)
	}
	found := in.Findings
	if in.AgentAlive {
		found = in.Report.Merge(found)
	}
	for _, f := range found {
		s.Findings = append(s.Findings, f)
		if f.Note != "" {
			say("%s (%s)", f.Text, f.Note)
		} else {
			say("%s", f.Text)
		}
	}
	for _, w := range worrying {
		n, before := s.Counters[w.name], in.Report.Counters[w.name]
		if n < before {
			before = 0 // the report is of an earlier attachment
		}
		if n > before {
			advice := w.advice
			if w.name == "tx_too_big" {
				advice = fmt.Sprintf(advice, name)
			}
			say("%s %d in the last minutes: %s", w.name, n-before, advice)
		}
	}
}

// headline are the counters that the human form shows; `stats` shows all.
var headline = []string{"rx_stamped", "rx_unstamped", "tx_stamped", "tx_unaware", "tx_paced", "tx_policed", "tx_fail_open", "hello_ack"}

// Write prints the status for people.
func (s *Status) Write(w io.Writer) {
	if s.OtherNamespace {
		fmt.Fprintln(w, s.where)
		return
	}
	fmt.Fprintf(w, "%s: attached for %s, XDP %s, egress %s\n", s.Interface, cli.Lasted(time.Duration(s.UptimeSeconds)*time.Second), s.XDPMode, s.Egress)
	agent := "none"
	if s.Agent.Alive {
		agent = fmt.Sprintf("pid %d, heartbeat %s ago", s.Agent.PID, cli.Nanos(s.Agent.HeartbeatAgeNs))
	}
	paced := string(s.Pacer)
	switch {
	case s.Pacer == pacer.HTB && s.Paced == 0:
		paced += " (no destination paced yet)"
	case s.OwnQdisc:
		paced += " (root qdisc replaced; detach puts it back)"
	}
	node := "not numbered"
	if s.Node != 0 {
		node = fmt.Sprintf("number %d", s.Node)
	}
	if s.NodeFile != "" {
		node += ", the others from " + s.NodeFile
	}
	pairs := [][2]string{
		{"agent", agent},
		{"version", s.Version},
		{"pacer", paced},
		{"policy", s.PolicyMode},
		{"rate", fmt.Sprintf("%sbit/s (from %s); a new destination starts with %sbit/s", cli.Rate(s.RateBps), s.RateFrom, cli.Rate(s.InitialBps))},
		{"clock", string(s.Clock)},
		{"node", node},
		{"destinations", fmt.Sprintf("%d, %d of them stamped", s.Destinations, s.Stamped)},
	}
	if s.Priority != nil {
		pairs = append(pairs, [2]string{"priority", s.Priority.String()})
	}
	if s.Limits != nil {
		pairs = append(pairs, s.Limits.lines()...)
	}
	if s.VLAN != "" {
		pairs = append(pairs, [2]string{"VLAN", s.VLAN})
	}
	if s.NIC != nil {
		pairs = append(pairs, [2]string{"nic", nicLine(s.NIC, s.NICAllow)})
	}
	if len(s.Repairs) > 0 {
		pairs = append(pairs, [2]string{"repaired", repairsLine(s.Repairs)})
	}
	for _, name := range headline {
		if n, ok := s.Counters[name]; ok {
			pairs = append(pairs, [2]string{name, cli.Count(n)})
		}
	}
	cli.Pairs(w, "  ", pairs)
	for _, p := range slices.Compact(slices.Clone(s.Problems)) {
		fmt.Fprintf(w, "  ! %s\n", p)
	}
}

// repairsLine describes what the agent has repaired since it started.
func repairsLine(repairs map[inspect.Kind]int) string {
	var parts []string
	for _, k := range inspect.Kinds() {
		if n := repairs[k]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", k, n))
		}
	}
	return strings.Join(parts, ", ") + " (see its log)"
}

// nicLine describes what processes use of the device that the agent serves.
func nicLine(n *device.Status, allow []netip.Prefix) string {
	var qps, conns, mrs, bytes uint64
	for _, p := range n.Processes {
		qps, conns, mrs, bytes = qps+p.QPs, conns+p.Connections, mrs+p.MRs, bytes+p.Bytes
	}
	line := fmt.Sprintf("processes %d, queue pairs %d, connections %d, regions %d with %.1f MB", len(n.Processes), qps, conns, mrs, float64(bytes)/1e6)
	for i, p := range allow {
		line += [...]string{", hosts of ", " "}[min(i, 1)] + p.String()
	}
	return line
}
