// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

func TestMain(m *testing.M) { engines.Main(m) }

const (
	oneWayLinkBps = 1_000_000_000 // --rate
	slowBps       = 100_000_000
	buffer        = 150_000 // bytes of the bottleneck's queue

	// part is what READ, UC and UD must have of what WRITE has in the same round.
	part          = 0.9
	begin         = 1500 * time.Millisecond
	oneWayMeasure = 2 * time.Second

	// deadline is for what must come about on any machine.
	deadline = 5 * time.Minute
)

// Hosts of the lab: the switch's ports to reader and sink are slow.
const (
	oneWaySource = iota
	reader
	oneWaySink
)

// oneWayLab is three attached hosts with engines.
type oneWayLab struct {
	t     *testing.T
	hosts []*engines.Host
	v6    bool
}

func newOneWayLab(t *testing.T, v6 bool) *oneWayLab {
	t.Helper()
	topo.RequireRoot(t)
	runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0))) // all hosts are in this process
	slow := func() *topo.Bottleneck { return &topo.Bottleneck{RateBPS: slowBps, Limit: buffer} }
	l := &oneWayLab{t: t, v6: v6, hosts: engines.New(t, topo.Spec{
		StaticNeighbours: true,
		Hosts:            []topo.HostSpec{{Name: "source"}, {Name: "reader", Bottleneck: slow()}, {Name: "sink", Bottleneck: slow()}},
	}, "--rate", "1G")}
	for _, h := range l.hosts {
		h.MustOpen(t, nic.Options{})
	}
	return l
}

// oneWayFlow is a stream that runs.
type oneWayFlow struct {
	*Stream
	l          *oneWayLab
	from, peer int
	port       int // the host whose port the data pass, -1 = none that is slow
	stop       context.CancelFunc
	ended      chan error
}

// oneWayFlow starts a stream; from posts it.
func (l *oneWayLab) flow(k Kind, from, peer, port int) *oneWayFlow {
	l.t.Helper()
	k.V6 = l.v6
	s, err := Connect(l.hosts[from], l.hosts[peer], k)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &oneWayFlow{Stream: s, l: l, from: from, peer: peer, port: port, stop: stop, ended: make(chan error, 1)}
	go func() { f.ended <- s.Run(ctx) }()
	return f
}

// end ends the stream.
func (f *oneWayFlow) end() {
	f.l.t.Helper()
	f.stop()
	if err := <-f.ended; err != nil {
		f.l.t.Error(err)
	}
	if err := f.qp.Destroy(); err != nil {
		f.l.t.Error(err)
	}
}

// result is what a stream reached in some slices of time.
type result struct {
	completed float64 // bit/s of completed messages
	port      float64 // bit/s through the port
	dropped   float64 // part of what came to the port
}

// reading is the counters behind a result.
type reading struct {
	at        time.Time
	completed uint64
	queue     topo.QueueStats
}

func (f *oneWayFlow) read() reading {
	f.l.t.Helper()
	r := reading{at: time.Now(), completed: f.Completed.Load()}
	if f.port >= 0 {
		q, err := f.l.hosts[f.port].Port().Queue()
		if err != nil {
			f.l.t.Fatal(err)
		}
		r.queue = q
	}
	return r
}

func (r reading) since(b reading) result {
	s := r.at.Sub(b.at).Seconds()
	drops := float64(r.queue.Drops - b.queue.Drops)
	return result{
		completed: float64(r.completed-b.completed) * 8 / s,
		port:      float64(r.queue.Sent-b.queue.Sent) * 8 / s,
		dropped:   drops / max(float64(r.queue.SentPackets-b.queue.SentPackets)+drops, 1),
	}
}

// run starts a stream, measures it, and ends it.
func (l *oneWayLab) run(k Kind, from, peer, port int) result {
	l.t.Helper()
	f := l.flow(k, from, peer, port)
	if port >= 0 && k.Size > single("", 0, 0).Size { // a machine that is slow may not fill the link with single packets
		l.awaitDecrease(k, port)
	}
	time.Sleep(begin)
	before := f.read()
	time.Sleep(oneWayMeasure)
	r := f.read().since(before)
	l.t.Logf("%-6s %d -> %d: completed %.1f Mbit/s, port %.1f Mbit/s, %.1f %% dropped; %s", k.Name, from, peer,
		r.completed/1e6, r.port/1e6, 100*r.dropped, l.registers(from, peer))
	f.end()
	return r
}

// awaitDecrease waits until the rate of the source to the host behind a port was decreased: the link to it
// is slower than that of the source.
func (l *oneWayLab) awaitDecrease(k Kind, port int) {
	l.t.Helper()
	for start := time.Now(); !l.t.Failed() && time.Since(start) < deadline; time.Sleep(time.Millisecond) {
		if r := l.row(oneWaySource, port); r != nil && Decreased(r) {
			return
		}
	}
	l.t.Errorf("%s: the rate was not decreased: %s", k.Name, l.registers(oneWaySource, port))
}

// row is a host's entry of another host, nil: there is none.
func (l *oneWayLab) row(at, of int) *bpf.DestRegs {
	l.t.Helper()
	a, err := loader.Open(topo.IfName, l.hosts[at].LoaderOptions())
	if err != nil {
		l.t.Fatal(err)
	}
	defer a.Close()
	r, found, err := a.Lookup(l.hosts[of].Addr(l.v6))
	if err != nil {
		l.t.Fatal(err)
	}
	if !found {
		return nil
	}
	return &r.Regs
}

// registers are the entries of two hosts of each other.
func (l *oneWayLab) registers(a, b int) (text string) {
	l.t.Helper()
	return show(a, b, l.row(a, b)) + show(b, a, l.row(b, a))
}

// bulk is traffic of long messages: a READ of 256 KB has the reader send something every
// 23 ms only.
func bulk(name string, typ verbs.QPType, op verbs.Op) Kind {
	return Kind{Name: name, Type: typ, Op: op, Size: 256 << 10, Deep: 4, PMTU: rocev2.PMTU1024}
}

// single is traffic of one packet a message: a long one that loses a packet is lost whole.
func single(name string, typ verbs.QPType, op verbs.Op) Kind {
	return Kind{Name: name, Type: typ, Op: op, Size: 1 << 10, Deep: 16, PMTU: rocev2.PMTU1024}
}

// oneWayCheck is one kind of traffic, and what it must reach next to WRITE.
type oneWayCheck struct {
	kind             Kind
	from, peer, port int
	reaches          func(l *oneWayLab, write, r result) bool
}

// checks stand in an order: back is about what READ leaves behind.
var checks = []oneWayCheck{
	{bulk("READ", verbs.RC, verbs.OpRead), reader, oneWaySource, reader, func(_ *oneWayLab, write, r result) bool {
		return r.completed >= part*write.completed
	}},
	{bulk("back", verbs.UC, verbs.OpWrite), reader, oneWaySource, -1, func(l *oneWayLab, _, _ result) bool {
		return l.row(reader, oneWaySource).RateBps >= part*oneWayLinkBps
	}},
	{single("UC", verbs.UC, verbs.OpWrite), oneWaySource, reader, reader, fills},
	// The sink has never met the source, and sends it nothing but ECHOs.
	{single("UD", verbs.UD, verbs.OpSend), oneWaySource, oneWaySink, oneWaySink, fills},
}

// fills: the link carries what it carries of WRITE, and little is lost.
func fills(_ *oneWayLab, write, r result) bool {
	return r.port >= part*write.port && r.dropped < 1-part
}

// TestShare: READ, UC and UD fill a bottleneck as WRITE does, which is acknowledged; and
// the reader's own rate does not suffer from what it reads.
func TestShare(t *testing.T) {
	for name, v6 := range map[string]bool{"v4": false, "v6": true} {
		if v6 && !require.Judged {
			continue // for the log alone one is enough
		}
		t.Run(name, func(t *testing.T) {
			l := newOneWayLab(t, v6)
			left := checks
			for tries := require.Tries(5); tries > 0 && len(left) > 0; tries-- {
				write := l.run(bulk("WRITE", verbs.RC, verbs.OpWrite), oneWaySource, reader, reader)
				var missed []oneWayCheck
				for _, c := range left {
					if r := l.run(c.kind, c.from, c.peer, c.port); !c.reaches(l, write, r) {
						missed = append(missed, c)
					}
				}
				left = missed
			}
			for _, c := range left {
				require.Missed(t, "%s does not have 90 %% of what WRITE has", c.kind.Name)
			}
		})
	}
}

// TestFollows: the rate of READ, UC and UD follows the bottleneck, down and up again. Before
// there was ECHO, that of UC and UD stayed what it was.
func TestFollows(t *testing.T) {
	for name, v6 := range map[string]bool{"v4": false, "v6": true} {
		t.Run(name, func(t *testing.T) {
			l := newOneWayLab(t, v6)
			// The sink has never met the source, and sends it nothing but ECHOs.
			l.follows(single("UD", verbs.UD, verbs.OpSend), oneWaySource, oneWaySink, oneWaySink)
			if r := l.row(oneWaySink, oneWaySource); r == nil || r.TxPackets != 0 {
				t.Errorf("the sink's entry of the source: %s", show(oneWaySink, oneWaySource, r))
			}
			l.follows(single("UC", verbs.UC, verbs.OpWrite), oneWaySource, reader, reader)
			l.follows(bulk("READ", verbs.RC, verbs.OpRead), reader, oneWaySource, reader)
		})
	}
}

// follows runs a stream from the source while the port's rate goes down and up.
func (l *oneWayLab) follows(k Kind, from, peer, port int) {
	l.t.Helper()
	f := l.flow(k, from, peer, port)
	defer f.end()
	for _, step := range []struct {
		bps, least, most uint64
	}{{slowBps, 0, slowBps * 3 / 2}, {slowBps / 5, 0, slowBps * 2 / 5}, {slowBps, slowBps * 3 / 5, oneWayLinkBps}} {
		if err := l.hosts[port].Port().SetRate(step.bps); err != nil {
			l.t.Fatal(err)
		}
		start, rate := time.Now(), uint64(0)
		for time.Since(start) < deadline {
			if r := l.row(oneWaySource, port); r != nil && r.Policy.Decisions > 0 {
				if rate = r.RateBps; rate >= step.least && rate <= step.most {
					break
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		l.t.Logf("%s at %d Mbit/s: rate %.1f Mbit/s after %.1f s", k.Name, step.bps/1e6, float64(rate)/1e6, time.Since(start).Seconds())
		if rate < step.least || rate > step.most || rate == 0 {
			l.t.Errorf("%s: the link carries %d bit/s, the rate is %d after %v; want %d to %d: %s", k.Name, step.bps, rate, deadline,
				step.least, step.most, l.registers(oneWaySource, port))
			return
		}
	}
}
