// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// loopback is an engine without sockets and threads, whose queue pairs are connected to each
// other over the engine's own loopback. The caller runs it, in a bubble of testing/synctest:
// time passes only when the caller sleeps.
type loopback struct {
	t          testing.TB
	e          *Core
	table      *mr.Table
	pd         testPD
	cq         *testCQ
	events     []verbs.EventType
	region     verbs.MR
	memory     []byte // memory of region
	rand       *rand.Rand
	link       link
	qps        []*QP // the requesters
	batch      [256]verbs.Completion
	done       map[uint32]int // completions by queue pair
	iterations int
	encrypt    func(x, y *QP)    // called with the two of a pair before they are connected; nil: they are plain
	attr       func(*verbs.Attr) // changes the attributes of queue pairs before they are connected; may be nil
	built      qp.Time           // build time of the packets that are in the engine's loopback
}

// link is what lies between the engine and itself.
type link struct {
	loss   float64 // share of the packets that are lost
	rate   uint64  // bit/s; 0: no time passes
	delay  time.Duration
	frames int                // frames that the receiver has; 0: any number
	tap    func(frame []byte) // observer of all sent frames, lost or not; may be nil

	jitter     time.Duration // the most that a packet takes longer: packets overtake each other
	duplicates float64       // share of the packets that arrive twice
	stamps     bool          // packets have T1 of a stamp, on the clock of the stamps

	free    qp.Time // time at which the last packet has left
	packets []packet
	dropped int // packets dropped because the receiver had no frame
}

type packet struct {
	at   qp.Time // arrival time
	b    []byte
	meta Meta
}

// loopbackSize is the memory that all queue pairs share.
const loopbackSize = 1 << 20

// rxBatch is how many frames an iteration takes.
const rxBatch = 128

// loopbackMTU is the MTU of the interface: the largest PMTU fits, encrypted too.
const loopbackMTU = 4096 + rocev2.PMTUOverhead + seal.Overhead

// never is a time that does not come: without reports, the test takes what is queued for them.
const never = qp.Time(1 << 62)

// testNow is the clock of the tests.
func testNow() qp.Time { return qp.Time(time.Now().UnixNano()) }

// testHost is the program around a core of a test.
type testHost struct {
	owns []netip.Addr // addresses of the interfaces; empty: all
	lost []qp.CompletionQueue
}

func (h *testHost) Clock() qp.Time                { return testNow() }
func (h *testHost) Owns(a netip.Addr) bool        { return len(h.owns) == 0 || slices.Contains(h.owns, a) }
func (h *testHost) TakePosts()                    {}
func (h *testHost) PublishCompletions()           {}
func (h *testHost) CQError(cq qp.CompletionQueue) { h.lost = append(h.lost, cq) }

// testCQ is a completion queue without end.
type testCQ struct {
	e    *Core
	list []verbs.Completion
}

// Complete implements qp.CompletionQueue.
func (c *testCQ) Complete(w verbs.Completion) {
	if w.Status != verbs.StatusSuccess {
		c.e.ShowFailure(w.QPN)
	}
	c.list = append(c.list, w)
}

func (c *testCQ) take(out []verbs.Completion) int {
	n := copy(out, c.list)
	c.list = c.list[:copy(c.list, c.list[n:])]
	return n
}

// testPD is a protection domain.
type testPD struct {
	table *mr.Table
	num   uint32
}

// Register registers memory of any kind.
func (p testPD) Register(s mr.Spec) (*mr.Region, error) {
	s.PD = p.num
	return p.table.Register(s)
}

// RegMR registers memory of the process.
func (p testPD) RegMR(b []byte, access verbs.Access) (verbs.MR, error) {
	return p.Register(mr.Spec{Host: b, Access: access})
}

// testAH is an address handle.
type testAH struct{ address Address }

// Address implements AddressHandle.
func (a *testAH) Address() *Address { return &a.address }

// Destroy implements verbs.AH.
func (a *testAH) Destroy() error { return nil }

// openAH returns a handle for a path that is open.
func openAH(e *Core, p *Path) *testAH {
	a := &testAH{Address{Path: p}}
	e.Open(&a.address)
	return a
}

// fixed returns a path that always is in state s.
func fixed(s PathState) *Path { return NewPath(&s, nil) }

// own is the path of a core to itself.
func own(addr netip.Addr) *Path {
	return fixed(PathState{Src: addr, Dst: addr, Ether: [14]byte{12: 8}, MTU: 4096 + rocev2.PMTUOverhead, PMTU: rocev2.PMTU4096, Loopback: true})
}

// newCore returns a core with one interface and no ports.
func newCore(mtu int, c RuntimeConfig) *Core {
	return New(Config{Host: &testHost{}, Rails: []RailConfig{{Name: "eth0", MTU: mtu, Runtime: c}}})
}

// iterate runs the core once, at the present time.
func (e *Core) iterate() int {
	e.Begin(testNow())
	return e.ReceiveLoopback() + e.Run(false) + e.FailOverruns()
}

// PostSend and PostRecv post to a queue pair.
func (x *QP) PostSend(wr *verbs.SendWR) error { return x.core.Send(x, wr) }
func (x *QP) PostRecv(wr *verbs.RecvWR) error { return x.core.Recv(x, wr) }

func newLoopback(t testing.TB, seed uint64) *loopback {
	t.Helper()
	e := newCore(loopbackMTU, RuntimeConfig{Paced: true, Burst: 4e6})
	l := &loopback{t: t, e: e, rand: rand.New(rand.NewPCG(seed, 1)), done: map[uint32]int{}, cq: &testCQ{e: e}}
	var err error
	if l.table, err = mr.New(mr.Config{}); err != nil {
		t.Fatal(err)
	}
	l.pd = testPD{l.table, l.table.AllocPD()}
	l.memory = make([]byte, loopbackSize)
	l.region, err = l.pd.RegMR(l.memory, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead|verbs.AccessRemoteAtomic)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// config is that of a queue pair with work requests of one element.
func (l *loopback) config(typ verbs.QPType, depth int) QPConfig {
	return QPConfig{Config: qp.Config{
		Type: typ, PD: l.pd.num, Memory: l.table, SendCQ: l.cq, RecvCQ: l.cq,
		MaxSend: depth, MaxRecv: depth, MaxSendSGE: 1, MaxRecvSGE: 1, AckPackets: 16,
		Notify: func(t verbs.EventType) { l.events = append(l.events, t) },
	}}
}

// connect makes one more pair of queue pairs in RTS.
func (l *loopback) connect(typ verbs.QPType, pmtu rocev2.PMTU, depth int) *QP {
	l.t.Helper()
	var pair [2]*QP
	for i := range pair {
		x := &QP{}
		if err := l.e.AddQP(x, l.config(typ, depth)); err != nil {
			l.t.Fatal(err)
		}
		pair[i] = x
	}
	if l.encrypt != nil {
		l.encrypt(pair[0], pair[1])
	}
	attr := verbs.DefaultAttr()
	attr.PMTU = pmtu
	if l.attr != nil {
		l.attr(&attr)
	}
	for i, x := range pair {
		if err := verbs.Connect(fixedPath{x}, verbs.Endpoint{}, verbs.Endpoint{QPN: pair[1-i].num}, attr); err != nil {
			l.t.Fatal(err)
		}
	}
	l.qps = append(l.qps, pair[0])
	if typ == verbs.RC {
		for range depth {
			if err := pair[1].PostRecv(&verbs.RecvWR{SGL: l.sgl(4096)}); err != nil {
				l.t.Fatal(err)
			}
		}
	}
	return pair[0]
}

// fixedPath is a queue pair whose route and neighbour nobody has to look up.
type fixedPath struct{ *QP }

func (x fixedPath) Modify(a verbs.Attr, mask verbs.AttrMask) error {
	var path *Path
	if a.State == verbs.StateRTR {
		path = own(us)
	}
	_, err := x.core.Modify(x.QP, &a, mask, path)
	return err
}

func (l *loopback) sgl(n int) []verbs.SGE {
	return []verbs.SGE{{Addr: l.region.VA(), Len: uint32(n), LKey: l.region.LKey()}}
}

// post posts a signaled message of n bytes.
func (l *loopback) post(x *QP, op verbs.Op, n int) {
	l.t.Helper()
	err := x.PostSend(&verbs.SendWR{Op: op, Flags: verbs.Signaled, SGL: l.sgl(n), RemoteAddr: l.region.VA(), RKey: l.region.RKey()})
	if err != nil {
		l.t.Fatal(err)
	}
}

// iterate runs the engine once, at the virtual time after the pause, and checks what it left.
func (l *loopback) iterate(pause time.Duration) error {
	time.Sleep(pause)
	l.e.Begin(testNow())
	l.transfer()
	l.receive()
	l.e.iterate()
	l.built = l.e.now
	l.iterations++
	return l.check()
}

// transfer takes what the engine has sent onto the link.
func (l *loopback) transfer() {
	q, k := &l.e.rx.loopback, &l.link
	for ; q.count > 0; q.count-- {
		b := slices.Clone(q.slots[q.head][:q.lens[q.head]])
		q.head = (q.head + 1) % loopbackLimit
		if k.tap != nil {
			k.tap(b)
		}
		if l.rand.Float64() < k.loss {
			continue
		}
		if k.free = max(k.free, l.e.now); k.rate != 0 {
			k.free += qp.Time(uint64(len(b)) * 8e9 / k.rate)
		}
		var m Meta
		if k.stamps {
			m = Meta{Flags: rocev2.StampT1, Proven: true, T1: uint64(int64(l.built) + l.e.dests.rails[0].config.ClockOffset)}
		}
		k.packets = append(k.packets, packet{k.arrival(l.rand), b, m})
		if l.rand.Float64() < k.duplicates {
			k.packets = append(k.packets, packet{k.arrival(l.rand), slices.Clone(b), m})
		}
	}
	if k.jitter != 0 {
		slices.SortStableFunc(k.packets, func(a, b packet) int { return int(a.at - b.at) })
	}
}

// arrival is when a packet arrives that leaves now.
func (k *link) arrival(r *rand.Rand) qp.Time {
	at := k.free + qp.Time(k.delay)
	if k.jitter != 0 {
		at += qp.Time(r.Int64N(int64(k.jitter)))
	}
	return at
}

// receive has the engine take what has arrived, a batch at most.
func (l *loopback) receive() (n int) {
	k := &l.link
	arrived := 0
	for arrived < len(k.packets) && k.packets[arrived].at <= l.e.now {
		arrived++
	}
	if over := arrived - k.frames; k.frames != 0 && over > 0 {
		k.packets = slices.Delete(k.packets, k.frames, arrived)
		k.dropped += over
		arrived = k.frames
	}
	for n = range min(arrived, rxBatch) {
		l.e.rx.frame(k.packets[n].b, k.packets[n].meta, true)
	}
	k.packets = slices.Delete(k.packets, 0, min(arrived, rxBatch))
	return min(arrived, rxBatch)
}

// check compares the lists of the scheduler with what they stand for.
func (l *loopback) check() error {
	seen := map[*dest]int{}
	n := 0
	for _, list := range []*fifo[*dest]{&l.e.tx.ready, &l.e.tx.socketFull} {
		for d := range list.All {
			if seen[d]++; seen[d] > 1 {
				return errors.New("a destination is queued twice")
			}
			if n++; n > len(l.e.dests.rails[0].dests) {
				return errors.New("the queue of destinations has no end")
			}
		}
	}
	for _, d := range l.e.dests.rails[0].dests {
		if queued := seen[d] == 1; queued != d.queued {
			return fmt.Errorf("a destination is queued: %v, and marked so: %v", queued, d.queued)
		}
		if !d.drr.Empty() && !d.queued && d.paceBlocked == 0 {
			return errors.New("queue pairs are queued at a destination that is not in service")
		}
	}
	return nil
}

// run runs the engine until n messages in all have completed, for a virtual minute at most.
func (l *loopback) run(n int, pause func() time.Duration) error {
	for start := time.Now(); n > 0; {
		if err := l.iterate(pause()); err != nil {
			return err
		}
		k := l.cq.take(l.batch[:])
		for _, c := range l.batch[:k] {
			l.done[c.QPN]++
			if c.Status != verbs.StatusSuccess {
				return fmt.Errorf("%d messages before the end: %+v", n, c)
			}
		}
		n -= k
		if time.Since(start) > time.Minute {
			return fmt.Errorf("%d messages have not completed after a virtual minute and %d iterations", n, l.iterations)
		}
	}
	return nil
}

// watchdog ends the test binary with all stacks if f takes longer than limit of real time:
// code that never returns cannot be stopped otherwise. The limit is far beyond what any machine needs.
func watchdog(limit time.Duration, f func()) {
	timer := time.AfterFunc(limit, func() {
		debug.SetTraceback("all")
		panic("the engine does not come to the end of an iteration")
	})
	defer timer.Stop()
	f()
}
