// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/policy"
	"github.com/softroce/softroce-xdp/loader"
)

// revision has the changes that command line and file make to an attachment. Settings that
// neither of them names stay.
type revision struct {
	cfg    bpf.Config
	state  loader.State
	report []string // name value (was value)
}

// revise compares the settings with those of the attachment. It changes nothing. The error
// names the settings that cannot be changed or that contradict each other.
func (s *settings) revise(att *loader.Attachment) (*revision, error) {
	cfg, err := att.Config()
	if err != nil {
		return nil, err
	}
	r := &revision{cfg: cfg, state: att.State}
	if err := s.refuseFixed(att); err != nil {
		return nil, err
	}
	r.numbers(s)
	if err := r.policy(s, cfg.LinkRateBps); err != nil {
		return nil, err
	}
	if file := s.NodeFile; file != "" && (s.given["nodes"] || r.state.NodeFile == "") {
		r.note("nodes", cmp.Or(r.state.NodeFile, "none"), file)
		r.state.NodeFile = file
	}
	if err := r.nic(s); err != nil {
		return nil, err
	}
	next := policyOf(&r.cfg)
	if err := minimumsFit(r.state.Interface, r.state.NodeFile, r.cfg.Node, next.Priority.Limit(r.cfg.LinkRateBps)); err != nil {
		return nil, cli.PlainUsage(fmt.Errorf("%s: nothing was changed: %w", r.state.Interface, err))
	}
	return r, nil
}

// refuseFixed returns an error if a setting differs that cannot change while attached, because
// programs, maps or qdisc depend on it.
func (s *settings) refuseFixed(att *loader.Attachment) error {
	st := att.State
	var wrong []string
	for _, x := range []struct{ name, is, want string }{
		{"pacer", string(st.Pacer), string(s.Pacer)},
		{"xdp-mode", string(st.XDPMode), string(s.XDPMode)},
		{"egress", string(st.Egress), string(s.Egress)},
		{"clock", string(st.Clock), string(s.Clock)},
		{"max-destinations", fmt.Sprint(att.Maps.Active.MaxEntries()), fmt.Sprint(s.MaxDests)},
	} {
		if s.given[x.name] && x.want != x.is && x.want != "auto" {
			wrong = append(wrong, fmt.Sprintf("%s is %s, %s was asked for", x.name, x.is, x.want))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return cli.PlainUsage(fmt.Errorf("%s: cannot be changed while it is attached: %s; nothing was changed: detach and attach again, or ask for what is there",
		st.Interface, strings.Join(wrong, "; ")))

}

// numbers compares the settings of the config map except the policy.
func (r *revision) numbers(s *settings) {
	if s.given["rate"] && s.RateBps != r.cfg.LinkRateBps {
		r.note("rate", cli.Rate(r.cfg.LinkRateBps), cli.Rate(s.RateBps))
		r.cfg.LinkRateBps, r.state.RateFrom = s.RateBps, "flag"
	}
	if s.given["node"] {
		r.note("node", fmt.Sprint(r.cfg.Node), fmt.Sprint(s.Node))
		r.cfg.Node = s.Node
	}
	if s.given["hello-rate"] {
		r.note("hello-rate", fmt.Sprint(r.cfg.HelloRate), fmt.Sprint(s.HelloRate))
		r.cfg.HelloRate = s.HelloRate
	}
	if s.given["heartbeat-timeout"] {
		r.note("heartbeat-timeout", cli.Nanos(int64(r.cfg.HeartbeatTimeoutNs)), cli.Nanos(int64(s.Heartbeat)))
		r.cfg.HeartbeatTimeoutNs = uint64(s.Heartbeat)
	}
}

// policy sets the parameters that are named, and those that depend on the link's rate.
func (r *revision) policy(s *settings, oldRate uint64) error {
	next := policyOf(&r.cfg)
	before, after := fourcase.DefaultParams(oldRate), fourcase.DefaultParams(r.cfg.LinkRateBps)
	if next.MinRateBps == before.MinRateBps {
		next.MinRateBps = after.MinRateBps
	}
	if next.MaxRateBps == before.MaxRateBps {
		next.MaxRateBps = after.MaxRateBps
	}
	was := *next
	for _, x := range s.policy {
		if err := policy.SetNamed(next, x); err != nil {
			return cli.PlainUsage(err)
		}
	}
	for _, p := range policy.All {
		r.note("policy "+p.Name, p.Get(&was), p.Get(next))
	}
	if err := next.Validate(); err != nil {
		return cli.PlainUsage(fmt.Errorf("%s: nothing was changed: the parameters do not fit together: %w", r.state.Interface, err))
	}
	writePolicy(&r.cfg, next)
	return nil
}

// writePolicy is the reverse of policyOf.
func writePolicy(cfg *bpf.Config, p *policy.Policy) {
	cfg.Policy = *bpf.ParamsFrom(&p.Params)
	prio, _ := bpf.PriorityAs[priority.Params, priority.State](cfg)
	*prio = p.Priority
	cfg.WindowOff = 0
	if p.WindowOff {
		cfg.WindowOff = 1
	}
}

func (r *revision) note(name, was, now string) {
	if was != now {
		r.report = append(r.report, fmt.Sprintf("%s %s (was %s)", name, now, was))
	}
}

// apply writes the settings. The caller has stopped the agent, which writes to the same map.
func (r *revision) apply(att *loader.Attachment) error {
	live, err := att.LiveConfig()
	if err != nil {
		return err
	}
	defer live.Close()
	live.LinkRateBps, live.Node, live.HelloRate = r.cfg.LinkRateBps, r.cfg.Node, r.cfg.HelloRate
	live.HeartbeatTimeoutNs = r.cfg.HeartbeatTimeoutNs
	writePolicy(live.Config, policyOf(&r.cfg))
	return att.SetSettings(r.state.NodeFile, r.state.RateFrom, r.state.NIC)
}

// String returns the changes as the end of a report.
func (r *revision) String() string {
	if len(r.report) == 0 {
		return ""
	}
	return "; " + strings.Join(r.report, ", ")
}
