// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/softroce/softroce-xdp/internal/texts"
)

func (s *Scenario) defaults() {
	set(&s.Group, Control)
	set(&s.Links.Trunk, s.Links.Host)
	set(&s.Links.Delay, 1000)
	set(&s.Switch.Buffer, 32e6)
	set(&s.Switch.Queues, 1)
	set(&s.Transport.MTU, 1000)
	set(&s.Transport.Recovery, "selective")
	if len(s.Seeds) == 0 {
		s.Seeds = []uint64{1}
	}
	if s.Measure.At.Kind != "" {
		set(&s.Measure.Target, targetRTTs*s.BaseRTT())
	}
	if s.Measure.Converge == 0 {
		s.Measure.Converge = s.lastChange()
	}
	for i := range s.Traffic {
		t := &s.Traffic[i]
		if t.Flows != nil {
			set(&t.Flows.Count, 1)
		}
		if t.Workload != nil {
			set(&t.Workload.To, s.Measure.To)
		}
		if t.Incast != nil {
			set(&t.Incast.To, s.Measure.To)
		}
	}
	for i := range s.Criteria {
		if c := &s.Criteria[i]; c.targets {
			c.Value *= float64(s.Measure.Target)
		}
	}
}

func set[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// targetRTTs is the queueing delay that criteria refer to, in base RTTs. It is about the
// marking threshold of DCTCP in HPCC's evaluation: 300 KB at 100 Gbit/s and RTTs of 8 us.
const targetRTTs = 3

// headers of a data packet: Ethernet with FCS, preamble and gap, IPv4, UDP, BTH and ICRC. An
// ACK has nothing else but 4 bytes of AETH.
const headers, ackBytes = 82, 86

// BaseRTT is the time from a full data packet to its ACK without any queue, on the shortest path
// that crosses a bottleneck: delay and transmission time of each link. Jitter does not count.
func (s *Scenario) BaseRTT() Time {
	links, ok := map[string]Time{"star": 2, "dumbbell": 3, "parking-lot": 3, "leaf-spine": 4, "fat-tree": 6}[s.Topology.Kind]
	if !ok || s.Links.Host == 0 {
		return 0 // checkTopology and checkLinks say so
	}
	transmission := func(bytes Size, trunks Time) Time {
		ns := func(r Rate) float64 { return float64(bytes) * 8e9 / float64(r) }
		return Time(float64(links-trunks)*ns(s.Links.Host) + float64(trunks)*ns(s.Links.Trunk))
	}
	trunks := links - 2
	return 2*links*s.Links.Delay + transmission(s.Transport.MTU+headers, trunks) + transmission(ackBytes, trunks)
}

// lastChange is the last moment at which a flow joins or a link changes.
func (s *Scenario) lastChange() (at Time) {
	for _, t := range s.Traffic {
		if f := t.Flows; f != nil {
			n := len(f.From.Of(s.Topology.Size())) * len(f.To.Of(s.Topology.Size()))
			at = max(at, f.Start+f.Each*Time(max(0, n-1)))
		}
	}
	for _, e := range s.Events {
		at = max(at, e.At)
	}
	return at
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

func (s *Scenario) validate() error {
	if !nameForm.MatchString(s.Name) {
		return fmt.Errorf("name: %q: a name is lower case letters, digits, dots and hyphens", s.Name)
	}
	groups := []string{string(Control), string(Completion), string(Scale), string(Validation)}
	if !slices.Contains(groups, string(s.Group)) {
		return fmt.Errorf("group: %w", texts.UnknownName(string(s.Group), "group", groups))
	}
	for _, check := range []func() error{s.checkTopology, s.checkLinks, s.checkTransport, s.checkClocks, s.checkSchemes, s.checkTraffic, s.checkEvents, s.checkMeasure, s.checkCriteria} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// Size is how many hosts a topology has.
func (t Topology) Size() int {
	switch t.Kind {
	case "parking-lot":
		return 2 + 2*t.Hops
	case "fat-tree":
		return t.K * t.K * t.K / 4
	}
	return t.Hosts
}

// Trunks is how many links between switches have a number.
func (t Topology) Trunks() int {
	switch t.Kind {
	case "dumbbell":
		return 1
	case "parking-lot":
		return t.Hops
	}
	return 0
}

// The kinds and the keys that each has; all others must be absent.
var (
	kinds     = []string{"star", "dumbbell", "parking-lot", "leaf-spine", "fat-tree"}
	keysOfAll = map[string][]string{
		"star": {"hosts"}, "dumbbell": {"hosts"}, "parking-lot": {"hops"}, "leaf-spine": {"hosts", "per-leaf", "spines"}, "fat-tree": {"k"},
	}
)

func (s *Scenario) checkTopology() error {
	t := s.Topology
	own, ok := keysOfAll[t.Kind]
	if !ok {
		return fmt.Errorf("topology: kind: %w", texts.UnknownName(t.Kind, "topology", kinds))
	}
	for _, v := range []struct {
		key             string
		value, min, max int
	}{{"hosts", t.Hosts, 2, maxHosts}, {"hops", t.Hops, 1, 64}, {"per-leaf", t.PerLeaf, 1, maxHosts}, {"spines", t.Spines, 1, 4096}, {"k", t.K, 2, 32}} {
		switch mine := slices.Contains(own, v.key); {
		case !mine && v.value != 0:
			return fmt.Errorf("topology: a %s has no %s, only %s", t.Kind, v.key, strings.Join(own, " and "))
		case mine && (v.value < v.min || v.value > v.max):
			return fmt.Errorf("topology: %s: %d; a %s needs %d to %d", v.key, v.value, t.Kind, v.min, v.max)
		}
	}
	switch {
	case t.K%2 != 0:
		return fmt.Errorf("topology: k: %d; a fat tree's k is even", t.K)
	case t.Kind == "dumbbell" && t.Hosts%2 != 0:
		return fmt.Errorf("topology: hosts: %d; a dumbbell has as many on the left as on the right", t.Hosts)
	case t.Kind == "leaf-spine" && t.Hosts%t.PerLeaf != 0:
		return fmt.Errorf("topology: hosts: %d; is no multiple of per-leaf: %d", t.Hosts, t.PerLeaf)
	}
	return nil
}

func (s *Scenario) checkLinks() error {
	l := s.Links
	switch {
	case l.Host == 0:
		return fmt.Errorf("links: host: the rate of the hosts' links is missing")
	case l.Delay < 0 || l.Jitter < 0:
		return fmt.Errorf("links: delay %v, jitter %v: neither may be negative", l.Delay, l.Jitter)
	case l.Loss >= 1:
		return fmt.Errorf("links: loss: %v of all packets; must be below 1", l.Loss)
	}
	if q := s.Switch.Queues; q < 1 || q > 6 {
		return fmt.Errorf("switch: queues: %d; a switch has 1 to 6 for data", q)
	}
	return nil
}

func (s *Scenario) checkTransport() error {
	t := s.Transport
	if t.MTU < 64 || t.MTU > 4096 {
		return fmt.Errorf("transport: mtu: %d bytes of payload; must be 64 to 4096", t.MTU)
	}
	if modes := []string{"selective", "go-back-n"}; !slices.Contains(modes, t.Recovery) {
		return fmt.Errorf("transport: recovery: %w", texts.UnknownName(t.Recovery, "way of recovery", modes))
	}
	if t.Window != 0 && t.Window < t.MTU {
		return fmt.Errorf("transport: window: %v is less than a packet (mtu: %v)", t.Window, t.MTU)
	}
	if t.RTO < 0 {
		return fmt.Errorf("transport: rto: %v is negative", t.RTO)
	}
	return nil
}

func (s *Scenario) checkClocks() error {
	c := s.Clocks
	if c.Offset < 0 || c.Drift < 0 {
		return fmt.Errorf("clocks: offset and drift are drawn from plus or minus the value: write it without a sign")
	}
	if c.Step != nil && (c.Step.Host < 0 || c.Step.Host >= s.Topology.Size()) {
		return fmt.Errorf("clocks: step: there is no host %d: they are 0 to %d", c.Step.Host, s.Topology.Size()-1)
	}
	return nil
}

func (s *Scenario) checkSchemes() error {
	labels := map[string]bool{}
	for _, x := range s.Schemes {
		if labels[x.Label] {
			return fmt.Errorf("line %d: scheme %q stands twice: give one a label", x.Line, x.Label)
		}
		labels[x.Label] = true
	}
	return nil
}

func (s *Scenario) checkTraffic() error {
	if len(s.Traffic) == 0 {
		return fmt.Errorf("traffic: nothing is sent")
	}
	for i, t := range s.Traffic {
		given := 0
		var err error
		if t.Flows != nil {
			given++
			err = s.checkFlows(t.Flows)
		}
		if t.OnOff != nil {
			given++
			err = s.checkOnOff(t.OnOff)
		}
		if w := t.Workload; w != nil {
			given++
			if _, err = ByName(w.Sizes); err == nil {
				err = checkLoad(w.Load, w.From, w.To)
			}
		}
		if n := t.Incast; n != nil {
			given++
			if err = checkLoad(n.Load, n.From, n.To); err == nil && (n.Senders < 1 || n.Senders >= s.Topology.Size() || n.Bytes < 1) {
				err = fmt.Errorf("%d senders of %v: needs at least one sender and byte, and fewer senders than hosts (%d)", n.Senders, n.Bytes, s.Topology.Size())
			}
		}
		if given != 1 {
			return fmt.Errorf("traffic: entry %d: needs exactly one of %s", i+1, "flows, on-off, workload, incast")
		}
		if err != nil {
			return fmt.Errorf("traffic: entry %d: %w", i+1, err)
		}
	}
	return nil
}

func checkLoad(load Share, from, to Time) error {
	if load <= 0 || load > 1 {
		return fmt.Errorf("load: %v; must be above 0 and at most 1", load)
	}
	if from < 0 || to <= from {
		return fmt.Errorf("from %v to %v: the end must be after the start", from, to)
	}
	return nil
}

func (s *Scenario) checkFlows(f *Flows) error {
	if f.Bytes < 0 || f.Count < 1 || f.Count > 1<<16 || f.Start < 0 || f.Each < 0 {
		return fmt.Errorf("bytes, count, start and each must not be negative")
	}
	return s.checkEnds(f.From, f.To)
}

func (s *Scenario) checkOnOff(o *OnOff) error {
	if o.Rate == 0 || o.On < 0 || o.Off < 0 || o.Start < 0 || o.Off > 0 && o.On == 0 {
		return fmt.Errorf("needs a rate, and on and off that are not negative")
	}
	if o.Stop != 0 && o.Stop <= o.Start {
		return fmt.Errorf("stop: %v is not after start: %v", o.Stop, o.Start)
	}
	for _, t := range s.Traffic {
		for _, h := range o.From.Of(s.Topology.Size()) {
			if t.Flows != nil && slices.Contains(t.Flows.From.Of(s.Topology.Size()), h) || t.Workload != nil || t.Incast != nil {
				return fmt.Errorf("host %d sends other traffic, too: cross traffic needs a host of its own", h)
			}
		}
	}
	return s.checkEnds(o.From, o.To)
}

func (s *Scenario) checkEnds(from, to Hosts) error {
	n := s.Topology.Size()
	for _, h := range []Hosts{from, to} {
		for _, x := range h.List {
			if x >= n {
				return fmt.Errorf("line %d: there is no host %d: they are 0 to %d", h.line, x, n-1)
			}
		}
	}
	switch pairs := countPairs(from.Of(n), to.Of(n)); {
	case pairs == 0:
		return fmt.Errorf("from and to give no pair of different hosts")
	case pairs > maxPairs:
		return fmt.Errorf("line %d: from and to give %d pairs of hosts; at most %d", from.line, pairs, maxPairs)
	}
	return nil
}

const maxPairs = 1 << 20

// countPairs counts pairs of different hosts.
func countPairs(from, to []int) int {
	in := map[int]bool{}
	for _, a := range from {
		in[a] = true
	}
	pairs := len(from) * len(to)
	for _, b := range to {
		if in[b] {
			pairs--
		}
	}
	return pairs
}

func (s *Scenario) checkEvents() error {
	for i, e := range s.Events {
		switch {
		case e.Link.Kind == "":
			return fmt.Errorf("events: entry %d: link is missing", i+1)
		case e.Rate == 0:
			return fmt.Errorf("events: entry %d: rate is missing", i+1)
		case e.At < 0 || e.At > s.Measure.To:
			return fmt.Errorf("events: entry %d: at %v; the run is measured until %v", i+1, e.At, s.Measure.To)
		}
		if err := s.checkLink(e.Link); err != nil {
			return fmt.Errorf("events: entry %d: %w", i+1, err)
		}
	}
	return nil
}

func (s *Scenario) checkLink(l Link) error {
	count, what := s.Topology.Size(), "host"
	if l.Kind == "trunk" {
		count, what = s.Topology.Trunks(), "trunk"
	}
	switch {
	case count == 0:
		return fmt.Errorf("line %d: a %s has no numbered trunks", l.line, s.Topology.Kind)
	case l.Number >= count:
		return fmt.Errorf("line %d: there is no %s %d: they are 0 to %d", l.line, what, l.Number, count-1)
	}
	return nil
}

func (s *Scenario) checkMeasure() error {
	m := s.Measure
	switch {
	case m.To == 0:
		return fmt.Errorf("measure: to: how long the run is measured is missing")
	case m.From < 0 || m.To <= m.From:
		return fmt.Errorf("measure: from %v to %v: the end must be after the start", m.From, m.To)
	case m.Drain < 0 || m.Target < 0 || m.Sample < 0:
		return fmt.Errorf("measure: drain, target and sample must not be negative")
	case m.Sample > 0 && (m.To+m.Drain)/m.Sample > 1e6:
		return fmt.Errorf("measure: sample: %v makes more than a million samples", m.Sample)
	case m.At.Kind != "":
		if err := s.checkLink(m.At); err != nil {
			return fmt.Errorf("measure: %w", err)
		}
	}
	return nil
}

func (s *Scenario) checkCriteria() error {
	for _, c := range s.Criteria {
		if c.targets && s.Measure.Target == 0 {
			return fmt.Errorf("line %d: %s: %q refers to measure: target, which is missing", c.line, c.Metric, c.Text)
		}
		bottleneck := slices.Contains([]string{"utilisation", "queue-p50", "queue-p99"}, c.Metric)
		if bottleneck && s.Measure.At.Kind == "" {
			return fmt.Errorf("line %d: %s needs measure: at, the link that is the bottleneck", c.line, c.Metric)
		}
		if c.Metric == "convergence" && s.Measure.Sample == 0 {
			return fmt.Errorf("line %d: convergence needs measure: sample", c.line)
		}
	}
	return nil
}
