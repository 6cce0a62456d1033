// SPDX-License-Identifier: Apache-2.0

package nic

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
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// loopback is an engine without sockets and threads, whose queue pairs are connected to each
// other over the engine's own loopback. The caller runs it, in a bubble of testing/synctest:
// time passes only when the caller sleeps.
type loopback struct {
	t          testing.TB
	e          *engine
	pd         *PD
	cq         *CQ
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
	meta rxMeta
}

// loopbackSize is the memory that all queue pairs share.
const loopbackSize = 1 << 20

func newLoopback(t testing.TB, seed uint64) *loopback {
	t.Helper()
	d := &Device{mtu: loopbackMTU, events: make(chan verbs.Event, eventBacklog), done: make(chan struct{})}
	e := &engine{dev: d, clock: newClock(), rail: rail{dests: map[netip.Addr]*dest{}, senders: []*sock{{}}}, reorder: qp.NewReorderPool(reorderPackets)}
	e.config = RuntimeConfig{Paced: true, Burst: 4e6}
	e.loopback.maxFrame = 4096 + 256
	e.posts.init()
	e.onTimer, e.onDest = e.expire, e.unblock
	d.eng = e
	l := &loopback{t: t, e: e, rand: rand.New(rand.NewPCG(seed, 1)), done: map[uint32]int{}}
	var err error
	must := func() {
		if err != nil {
			t.Fatal(err)
		}
	}
	d.mem, err = mr.New(mr.Config{})
	must()
	l.pd = &PD{dev: d, num: d.mem.AllocPD()}
	l.memory = make([]byte, loopbackSize)
	l.region, err = l.pd.RegMR(l.memory, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead|verbs.AccessRemoteAtomic)
	must()
	l.cq, err = d.createCQ(MaxCQ)
	must()
	return l
}

// connect makes one more pair of queue pairs in RTS.
func (l *loopback) connect(typ verbs.QPType, pmtu rocev2.PMTU, depth int) *QP {
	l.t.Helper()
	var pair [2]*QP
	for i := range pair {
		x := &QP{dev: l.e.dev, typ: typ, pd: l.pd, send: l.cq, recv: l.cq}
		x.timer.Owner = x
		err := l.e.addQP(x, qp.Config{
			Type: typ, PD: l.pd.num, Memory: l.e.dev.mem, SendCQ: l.cq, RecvCQ: l.cq, Count: &l.e.qpCount, Reorder: l.e.reorder,
			MaxSend: depth, MaxRecv: depth, MaxSendSGE: 1, MaxRecvSGE: 1, AckPackets: ackPackets,
		})
		if err != nil {
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
	var path *route.Path
	if a.State == verbs.StateRTR {
		path = route.Fixed(route.State{Src: us, Dst: us, Ether: [14]byte{12: 8}, MTU: 4096 + rocev2.PMTUOverhead, PMTU: rocev2.PMTU4096, Loopback: true})
	}
	_, err := x.dev.eng.modify(x.QP, &a, mask, path)
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
	l.e.now = l.e.clock.now()
	l.transfer()
	l.receive()
	l.e.iterate()
	l.built = l.e.now
	l.iterations++
	return l.check()
}

// transfer takes what the engine has sent onto the link.
func (l *loopback) transfer() {
	q, k := &l.e.loopback, &l.link
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
		var m rxMeta
		if k.stamps {
			m = rxMeta{flags: rocev2.StampT1, proven: true, t1: uint64(int64(l.built) + l.e.config.ClockOffset)}
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
		l.e.frame(k.packets[n].b, k.packets[n].meta, true)
	}
	k.packets = slices.Delete(k.packets, 0, min(arrived, rxBatch))
	return min(arrived, rxBatch)
}

// check compares the lists of the scheduler with what they stand for.
func (l *loopback) check() error {
	seen := map[*dest]int{}
	n := 0
	for d := range l.e.ready.All {
		if seen[d]++; seen[d] > 1 {
			return errors.New("a destination is queued twice")
		}
		if n++; n > len(l.e.dests) {
			return errors.New("the queue of destinations has no end")
		}
	}
	if !l.e.socketFull.Empty() {
		return errors.New("destinations are still among those without frames after the iteration")
	}
	for _, d := range l.e.dests {
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
