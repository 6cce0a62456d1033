// SPDX-License-Identifier: Apache-2.0

// Package scenario reads the description of an experiment from YAML: a topology, clocks, traffic,
// events, what to measure, and what the result must be. Internal to this project.
//
// The library (Library, Named) holds the scenarios of docs/study/congestion-control.md.
// Reading is strict: a key that does not exist is an error that names the line and
// the key that was probably meant, and so is a quantity without its unit.
package scenario

// Scenario is one experiment, for any number of schemes and seeds.
type Scenario struct {
	Name  string `yaml:"name"`
	Title string `yaml:"title"`
	// About says what the experiment shows, for `softroce-sim show` and the report.
	About string `yaml:"about"`
	// Group is the table of the report that it stands in.
	Group Group `yaml:"group"`

	Topology  Topology  `yaml:"topology"`
	Links     Links     `yaml:"links"`
	Switch    Switch    `yaml:"switch"`
	Transport Transport `yaml:"transport"`
	Clocks    Clocks    `yaml:"clocks"`
	Schemes   []Scheme  `yaml:"schemes"`
	Traffic   []Traffic `yaml:"traffic"`
	Events    []Event   `yaml:"events"`
	Measure   Measure   `yaml:"measure"`
	Criteria  Criteria  `yaml:"criteria"`
	Seeds     []uint64  `yaml:"seeds"`
}

// Group is how the report treats a scenario.
type Group string

const (
	Control    Group = "control"    // flows that share a bottleneck: utilisation, fairness, queue
	Completion Group = "completion" // messages of a workload: slowdown of completion by size
	Scale      Group = "scale"      // what the simulator costs
	Validation Group = "validation" // known results of papers
)

// Topology is one of five shapes. Hosts are numbered from 0.
//
//	star          Hosts around one switch
//	dumbbell      half of Hosts at each of two switches with one trunk between them
//	parking-lot   Hops trunks in a row: host 0 at the first switch sends over all of
//	              them to host 1 at the last; hosts 2+2i and 3+2i send over trunk i only
//	leaf-spine    Hosts at switches of PerLeaf, each connected to all Spines
//	fat-tree      K pods, K³/4 hosts
type Topology struct {
	Kind    string `yaml:"kind"`
	Hosts   int    `yaml:"hosts"`
	Hops    int    `yaml:"hops"`
	PerLeaf int    `yaml:"per-leaf"`
	Spines  int    `yaml:"spines"`
	K       int    `yaml:"k"`
}

// Links are alike but for their rates.
type Links struct {
	Host   Rate  `yaml:"host"`   // rate between a host and its switch
	Trunk  Rate  `yaml:"trunk"`  // rate between switches; the hosts' if not given
	Delay  Time  `yaml:"delay"`  // one way, of each link
	Jitter Time  `yaml:"jitter"` // evenly between 0 and this, added to each packet's delay
	Loss   Share `yaml:"loss"`   // share of the packets that is lost on each link, at random
}

// Switch holds the switches' settings that are not a scheme's.
type Switch struct {
	Buffer Size  `yaml:"buffer"` // shared by the ports
	PFC    *bool `yaml:"pfc"`    // lossless: pause the sender instead of dropping; if not given, as the scheme wants it
	// Queues is the number of data queues of each port, served strictly in order; 1 if not given.
	// With several, each message takes the queue of its size (precredit.FlowSize.QueueIndex),
	// whatever the scheme, and ACKs take the first.
	Queues int `yaml:"queues"`
}

// Transport is how hosts send.
type Transport struct {
	MTU      Size   `yaml:"mtu"`      // payload of a packet
	Recovery string `yaml:"recovery"` // selective or go-back-n
	RTO      Time   `yaml:"rto"`
	// Window limits the payload in flight under schemes that set no window of their
	// own: of a flow or, with a scheme that works per destination, of all flows to it.
	Window Size `yaml:"window"`
}

// Clocks make the hosts' clocks differ. Offset and Drift are drawn evenly from
// plus or minus the value, for each host.
type Clocks struct {
	Offset Time  `yaml:"offset"`
	Drift  PPM   `yaml:"drift"`
	Step   *Step `yaml:"step"`
}

// Step moves one host's clock at a moment.
type Step struct {
	Host int  `yaml:"host"`
	At   Time `yaml:"at"`
	By   Time `yaml:"by"`
}

// Traffic is one pattern; exactly one of its members is given.
type Traffic struct {
	Flows    *Flows    `yaml:"flows"`
	OnOff    *OnOff    `yaml:"on-off"`
	Workload *Workload `yaml:"workload"`
	Incast   *Incast   `yaml:"incast"`
}

// Flows are flows of the schemes: from each host of From to each of To.
type Flows struct {
	From  Hosts `yaml:"from"`
	To    Hosts `yaml:"to"`
	Bytes Size  `yaml:"bytes"` // 0: without end
	Count int   `yaml:"count"` // queue pairs of each pair of hosts; 1 if not given
	Start Time  `yaml:"start"`
	Each  Time  `yaml:"each"` // the second starts so much later than the first, and so on
}

// OnOff is cross traffic that follows no scheme: Rate for On, nothing for Off.
// Without Off it never stops.
type OnOff struct {
	From  Hosts `yaml:"from"`
	To    Hosts `yaml:"to"`
	Rate  Rate  `yaml:"rate"`
	On    Time  `yaml:"on"`
	Off   Time  `yaml:"off"`
	Start Time  `yaml:"start"`
	Stop  Time  `yaml:"stop"`
}

// Workload is traffic of all to all with Poisson arrivals.
type Workload struct {
	Sizes string `yaml:"sizes"` // websearch, hadoop, storage
	Load  Share  `yaml:"load"`  // load of the hosts' links
	From  Time   `yaml:"from"`
	To    Time   `yaml:"to"` // 0: the end of the measured interval
}

// Incast repeats incasts among random hosts, so that they make Load.
type Incast struct {
	Senders int   `yaml:"senders"`
	Bytes   Size  `yaml:"bytes"` // bytes of each sender
	Load    Share `yaml:"load"`
	From    Time  `yaml:"from"`
	To      Time  `yaml:"to"`
}

// Event changes a link's rate.
type Event struct {
	At   Time `yaml:"at"`
	Link Link `yaml:"link"`
	Rate Rate `yaml:"rate"`
}

// Measure is when and where.
type Measure struct {
	From Time `yaml:"from"`
	To   Time `yaml:"to"`
	// Drain is how long after To the run goes on for messages that are in flight.
	Drain Time `yaml:"drain"`
	// At is the bottleneck: the link whose queue and utilisation count. Without it
	// neither is measured.
	At Link `yaml:"at"`
	// Target is the queueing delay that criteria refer to as "target"; three base RTTs of
	// the bottleneck's shortest path if not given (Scenario.BaseRTT).
	Target Time `yaml:"target"`
	// Buckets are the upper ends of the sizes that messages are grouped by.
	Buckets []Size `yaml:"buckets"`
	// Sample is the interval of the time series, for plots and convergence.
	Sample Time `yaml:"sample"`
	// Converge is the moment from which convergence is timed.
	Converge Time `yaml:"converge"`
}

// Endless is a flow without end, as one entry of traffic makes them.
type Endless struct {
	Src, Dst int
	Start    Time
}

// Endless lists the flows without end, in the order in which results have them.
func (s *Scenario) Endless() (all []Endless) {
	n := s.Topology.Size()
	for _, t := range s.Traffic {
		if t.Flows == nil || t.Flows.Bytes != 0 {
			continue
		}
		t.Flows.EachPair(n, func(src, dst int, at Time) {
			for range t.Flows.Count {
				all = append(all, Endless{src, dst, at})
			}
		})
	}
	return all
}

// EachPair calls a function for each pair of different hosts of a topology of n
// hosts, with the time at which their flows start.
func (f *Flows) EachPair(n int, visit func(src, dst int, at Time)) {
	at := f.Start
	for _, src := range f.From.Of(n) {
		for _, dst := range f.To.Of(n) {
			if src != dst {
				visit(src, dst, at)
				at += f.Each
			}
		}
	}
}
