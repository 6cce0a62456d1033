// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	paceBurst = 1e6                   // ns: burstNs of the card
	paceBytes = 100 << 10             // of a message
	paceFrame = 14 + 20 + 8 + 12 + 4  // bytes of a frame around its data
	firstEth  = paceFrame + 16 + 1024 // first frame of a WRITE
)

// newNodes makes cards that are nodes 1 to n for each other. Port i of the first one leads to node
// i + 2, whose port is 0.
func newNodes(t testing.TB, n int) *world {
	w := newWorld(t, 1)
	for len(w.side) < n {
		s := w.addSide()
		w.net.Connect(w.side[0].m, len(w.side)-2, s.m, 0)
	}
	for i, s := range w.side {
		err := s.d.Close()
		if err != nil {
			t.Fatal(err)
		}
		if s.d, err = driver.New(s.card, driver.Config{RingBytes: ringBytes, Resolve: func(a netip.Addr) (driver.Hop, error) {
			for j, to := range w.side {
				if to.addr[0] == a {
					return driver.Hop{MAC: to.mac, Node: j + 1}, nil
				}
			}
			return driver.Hop{}, fmt.Errorf("nobody has %v", a)
		}}); err != nil {
			t.Fatal(err)
		}
		for j, to := range w.side {
			port := 0
			if i == 0 && j > 0 {
				port = j - 1
			}
			if err := errors.Join(s.d.SetNode(j+1, to.addr[0], port), s.d.SetPort(port, s.mac)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

// dest is the entry of another side.
func (s *side) dest(to *side) regs.Dest { return regs.DestOf(s.card, int(to.mac[5])-1) }

// pair connects two sides.
func (w *world) pair(from, to *side, pmtu rocev2.PMTU) (a, b *endpoint) {
	a, b = from.endpoint(verbs.RC), to.endpoint(verbs.RC)
	w.join(a, b, 0, pmtu)
	return a, b
}

// start posts a WRITE or READ of paceBytes.
func (e *endpoint) start(op verbs.Op) {
	e.w.t.Helper()
	e.post(&verbs.SendWR{ID: 1, Op: op, Flags: verbs.Signaled, SGL: []verbs.SGE{e.sge(0, paceBytes)}, RemoteAddr: regionVA, RKey: e.peer.mr.RKey()})
}

// departure is a frame that left a port.
type departure struct {
	at   qp.Time
	size int
}

// watch records the frames that s sends.
func (w *world) watch(s *side) *[]departure {
	var all []departure
	w.net.Drop = func(frame []byte) bool {
		if frame[11] == s.mac[5] {
			all = append(all, departure{w.net.Now(), len(frame)})
		}
		return false
	}
	return &all
}

// Requests and READ responses leave at the rate of the destination: never more than a burst before
// it, and each as soon as it may.
func TestRateOfDestination(t *testing.T) {
	const rate, messages = 1_000_000_000, 10
	for _, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead} {
		w := newNodes(t, 2)
		a, b := w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
		a.fill(0, paceBytes, 1)
		from, to := a.side, b.side
		if op == verbs.OpRead {
			from, to = to, from
		}
		w.quiet()
		from.dest(to).SetRateBps(rate)
		start := w.net.Now()
		if op == verbs.OpRead {
			start += w.net.Delay
		}
		from.dest(to).SetNextTxNs(uint64(start)) // no burst
		all := w.watch(from)
		for range messages {
			a.start(op)
		}
		a.poll(messages)
		due, bytes, late := start, 0, qp.Time(0)
		for i, d := range *all {
			if d.at != due {
				t.Fatalf("%v: frame %d leaves at %d, want %d", op, i, d.at, due)
			}
			if i > 0 {
				late += d.at - (*all)[i-1].at
			}
			bytes += d.size
			due += qp.Time(d.size * 8)
		}
		e := from.dest(to)
		if len(*all) != messages*paceBytes/1024 || e.TxPackets() != uint64(len(*all)) || e.NextTxNs() != uint64(due) {
			t.Errorf("%v: %d frames leave, %d are counted, next_tx_ns %d, want %d", op, len(*all), e.TxPackets(), e.NextTxNs(), due)
		}
		if e.WinPaced() != uint32(len(*all)-1) || e.PacedNs() != uint64(late) || e.LastTxNs() != uint64((*all)[len(*all)-1].at) {
			t.Errorf("%v: %d frames were delayed by %d ns, want %d", op, e.WinPaced(), e.PacedNs(), late)
		}
		w.quiet()
	}
}

// A destination that was idle may send a burst at once.
func TestBurstAfterIdle(t *testing.T) {
	const rate = 100_000_000
	w := newNodes(t, 2)
	a, _ := w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
	a.dest(w.side[1]).SetRateBps(rate)
	start, at := w.net.Now(), 0
	a.dest(w.side[1]).SetNextTxNs(uint64(start) - 1e9)
	all := w.watch(a.side)
	a.start(verbs.OpWrite)
	a.poll(1)
	bytes := 0
	for _, d := range *all {
		if limit := int(d.at-start+paceBurst) / 80; bytes > limit { // before this frame: 80 ns for each byte
			t.Fatalf("%d bytes leave in %d ns, limit %d", bytes, d.at-start, limit)
		}
		if bytes += d.size; d.at == start {
			at = bytes
		}
	}
	if at <= paceBurst/80 || at > paceBurst/80+firstEth {
		t.Errorf("%d bytes leave at once, want a burst of %d", at, int(paceBurst/80))
	}
}

// A slow destination has no effect on another one, and queue pairs of one share its rate (S1.9).
func TestSlowDestination(t *testing.T) {
	const slowRate, fastRate = 10_000_000, 10_000_000_000
	finish := func(slow bool) (at qp.Time) {
		w := newNodes(t, 3)
		s, first, second := w.side[0], w.side[1], w.side[2]
		s.dest(first).SetRateBps(slowRate)
		s.dest(second).SetRateBps(fastRate)
		var waiting []*endpoint
		for range 3 {
			a, _ := w.pair(s, first, rocev2.PMTU1024)
			waiting = append(waiting, a)
		}
		a, _ := w.pair(s, second, rocev2.PMTU1024)
		if slow {
			for _, e := range waiting {
				e.start(verbs.OpWrite)
			}
		}
		for range 10 {
			a.start(verbs.OpWrite)
		}
		a.poll(10)
		at = w.net.Now()
		if !slow {
			return at
		}
		if sent := s.dest(first).TxBytes(); sent == 0 || sent > uint64(slowRate/8*(float64(at)+paceBurst)/1e9)+firstEth {
			t.Errorf("%d bytes leave to the slow destination in %d ns", sent, at)
		}
		// The three queue pairs end one after the other, at about the same time.
		waiting[0].poll(1)
		begin := w.net.Now()
		waiting[1].poll(1)
		waiting[2].poll(1)
		if end := w.net.Now(); end-begin > begin/20 {
			t.Errorf("queue pairs of one destination end at %d to %d", begin, end)
		}
		return at
	}
	if alone, both := finish(false), finish(true); alone != both {
		t.Errorf("1 MB to a destination is there at %d ns, and at %d ns with a slow destination", alone, both)
	}
}

// ACKs leave at once, also those of a queue pair whose data waits.
func TestAcksAreNotPaced(t *testing.T) {
	w := newNodes(t, 2)
	a, b := w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
	e := b.dest(a.side)
	e.SetRateBps(1000)
	e.SetNextTxNs(uint64(w.net.Now()) + 1e6)
	a.start(verbs.OpWrite)
	a.poll(1)
	if at := w.net.Now(); at > 10_000 || e.TxPackets() == 0 || e.WinPaced() != 0 || e.NextTxNs() != 1_000_001 {
		t.Errorf("the ACK is there at %d ns; %d packets, next_tx_ns %d", at, e.TxPackets(), e.NextTxNs())
	}
	b.start(verbs.OpWrite)
	a.start(verbs.OpWrite)
	a.poll(1)
	if at := w.net.Now(); at > 20_000 || e.WinPaced() != 0 {
		t.Errorf("the ACK of a queue pair whose data waits is there at %d ns", at)
	}
}

// A rate that changes takes effect for the data that waits.
func TestRateChanges(t *testing.T) {
	for _, to := range []uint64{0, 10_000_000_000} {
		w := newNodes(t, 2)
		a, b := w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
		e := a.dest(b.side)
		e.SetRateBps(1000)
		a.start(verbs.OpWrite)
		if err := w.net.Run(1_000_000, func() bool { return false }); err == nil || a.cq.Poll(make([]verbs.Completion, 1)) != 0 {
			t.Fatalf("100 KB leave at 1000 bit/s (%v)", err)
		}
		start := w.net.Now()
		e.SetRateBps(to)
		a.poll(1)
		if took := w.net.Now() - start; took > 200_000 || e.TxPackets() != 100 {
			t.Errorf("after the change to %d bit/s: %d ns, %d packets", to, took, e.TxPackets())
		}
	}
}

// A queue pair of UD waits for the destination of its next datagram.
func TestPacedDatagrams(t *testing.T) {
	const size = 1000
	w := newNodes(t, 3)
	a := w.side[0].endpoint(verbs.UD)
	attr := verbs.DefaultAttr()
	attr.PMTU = rocev2.PMTU4096
	var to [2]*endpoint
	var send [2]verbs.SendWR
	for i := range to {
		to[i] = w.side[i+1].endpoint(verbs.UD)
		from := verbs.Endpoint{Addr: a.addr[0], QPN: a.qp.QPN(), PSN: 1, QKey: qkey}
		here := verbs.Endpoint{Addr: to[i].addr[0], QPN: to[i].qp.QPN(), PSN: 1, QKey: qkey}
		if err := verbs.Connect(to[i].qp, here, from, attr); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := verbs.Connect(a.qp, from, here, attr); err != nil {
				t.Fatal(err)
			}
		}
		ah, err := a.pd.CreateAH(verbs.AddressVector{Src: a.addr[0], Dst: to[i].addr[0]})
		if err != nil {
			t.Fatal(err)
		}
		to[i].receive(1, to[i].sge(0, 4096))
		to[i].receive(2, to[i].sge(0, 4096))
		send[i] = verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, size)}, AH: ah, RemoteQPN: to[i].qp.QPN(), RemoteQKey: qkey}
	}
	w.quiet()
	slow, fast := a.dest(to[0].side), a.dest(to[1].side)
	slow.SetRateBps(1_000_000)
	fast.SetRateBps(1_000_000_000)
	start := w.net.Now()
	slow.SetNextTxNs(uint64(start) + 5e6)
	fast.SetNextTxNs(uint64(start))
	all := w.watch(a.side)
	a.post(&send[1])
	a.post(&send[0])
	a.post(&send[1])
	a.poll(3)
	if d := *all; len(d) != 3 || d[0].at != start || d[1].at != start+5e6 || d[2].at != d[1].at {
		t.Errorf("datagrams leave at %v, after %d", d, start)
	}
	if slow.WinPaced() != 1 || fast.WinPaced() != 0 || slow.PacedNs() != 5e6 || fast.TxPackets() != 2 {
		t.Errorf("%d and %d datagrams were delayed, by %d ns", slow.WinPaced(), fast.WinPaced(), slow.PacedNs())
	}
}

// Models that run by themselves obey the rate too.
func TestPacedRunning(t *testing.T) {
	const rate = 100_000_000
	w := newNodes(t, 2)
	begin := time.Now()
	w.clock = func() uint64 { return uint64(time.Since(begin)) }
	a, b := w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
	a.dest(b.side).SetRateBps(rate)
	var left, right [regs.PortsCount]card.Wire
	left[0], right[0] = card.Cable(64)
	runs := []*card.Running{card.Start(a.m, left), card.Start(b.m, right)}
	start := time.Now()
	a.start(verbs.OpWrite)
	wait(t, a)
	least := time.Duration(float64(paceBytes-firstEth)*8e9/rate - paceBurst)
	if took := time.Since(start); took < least {
		t.Errorf("%d bytes took %v, at least %v expected", paceBytes, took, least)
	}
	for _, r := range runs {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
