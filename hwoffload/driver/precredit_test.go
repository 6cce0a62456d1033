// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	creditBudget = 100_000
	creditBurst  = 12 * creditPacket // as many packets as one bandwidth-delay product needs, without the last
)

// creditPair makes two connected nodes that both use pre-credit.
func creditPair(t *testing.T) (w *world, a, b *endpoint) {
	w = newCreditNodes(t, 2)
	for _, s := range w.side {
		s.enable(creditConfig(creditBudget))
	}
	a, b = w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
	return w, a, b
}

// The grant is there before any data (S5.1). A message of one bandwidth-delay product leaves at
// once and needs one round trip, although the rate of its destination would take 100 ms for it.
func TestPreCreditFirstFlight(t *testing.T) {
	w, a, b := creditPair(t)
	all := w.trace(nil)
	w.after(3 * creditDelay)
	want := []rocev2.Opcode{rocev2.OpCreditGrant, rocev2.OpCreditGrant, rocev2.OpCreditReturn, rocev2.OpCreditReturn}
	if got := ops(*all); !slices.Equal(got, want) {
		t.Fatalf("after the connection: %v, want %v", got, want)
	}
	share := creditConfig(creditBudget).Receiver.ShareBytes
	if l := b.senders().List; len(l) != 1 || l[0].ID != 1 || l[0].Share != share || l[0].Outstanding != share {
		t.Fatalf("senders %+v, want node 1 with %d bytes", l, share)
	}
	const rate = 1_000_000
	a.dest(b.side).SetRateBps(rate)
	start := w.net.Now()
	a.dest(b.side).SetNextTxNs(uint64(start))
	*all = nil
	data := a.fill(0, creditBurst, 1)
	a.send(creditBurst)
	a.poll(1)
	b.wants(0, data, "write")
	if took := w.net.Now() - start; took != creditRTT {
		t.Errorf("%d bytes take %d ns, want one RTT of %d", creditBurst, took, creditRTT)
	}
	size := 0
	for _, e := range *all {
		if e.data() && (e.at != start || !e.credited()) {
			t.Errorf("%v leaves at %d, on pre-credit %v", e.op, e.at-start, e.credited())
		}
		if e.data() {
			size += int(e.bytes) + paceFrame
		}
	}
	size += 16 // RETH
	if a.credits().Used() != creditBurst || b.credits().Delivered() != creditBurst {
		t.Errorf("%d bytes used, %d delivered, want %d", a.credits().Used(), b.credits().Delivered(), creditBurst)
	}
	if l := b.senders().List; l[0].Outstanding != share {
		t.Errorf("outstanding %d bytes, want %d again", l[0].Outstanding, share)
	}
	b.conserved(creditBudget)

	// The pacer has counted it: what is sent next waits, with pre-credit too, as more than a
	// bandwidth-delay product has left ahead of the rate.
	if next := a.dest(b.side).NextTxNs(); next != uint64(start)+uint64(size)*8e9/rate {
		t.Errorf("next_tx_ns %d after %d bytes, want %d", next-uint64(start), size, size*8e9/rate)
	}
	a.send(1)
	a.poll(1)
	ahead := (qp.Time(size) - creditBDP) * 8e9 / rate
	if took := w.net.Now() - start; took < ahead {
		t.Errorf("the next packet is there after %d ns, want %d at least", took, ahead)
	}
}

func ops(all []creditEvent) (list []rocev2.Opcode) {
	for _, e := range all {
		list = append(list, e.op)
	}
	return list
}

// A lost grant is sent again. Until then data leaves as without pre-credit.
func TestPreCreditLostGrant(t *testing.T) {
	const lose = 3
	w, a, b := creditPair(t)
	lost := 0
	all := w.trace(func(e *creditEvent) bool {
		if e.op == rocev2.OpCreditGrant && e.from == 2 && lost < lose {
			lost++
			return true
		}
		return false
	})
	data := a.fill(0, 5000, 1)
	a.send(5000)
	a.poll(1)
	b.wants(0, data, "write without a grant")
	if a.credits().Used() != 0 {
		t.Errorf("%d bytes leave on pre-credit without a grant", a.credits().Used())
	}
	w.after(100_000_000)
	if lost != lose || b.credits().GrantsAgain() != lose {
		t.Errorf("%d grants lost, %d sent again", lost, b.credits().GrantsAgain())
	}
	data = a.fill(0, 5000, 2)
	a.send(5000)
	a.poll(1)
	b.wants(0, data, "write")
	if a.credits().Used() != 5000 {
		t.Errorf("%d bytes leave on pre-credit, want 5000", a.credits().Used())
	}
	if last := (*all)[len(*all)-1]; last.op != rocev2.RCAck || !last.credited() {
		t.Errorf("the last packet is %v, with credit %v", last.op, last.credited())
	}
	b.conserved(creditBudget)
}

// Pre-credit that nobody uses expires at both ends; the next message is a new flow (S5.2), whose
// grant arrives after its first RTT.
func TestPreCreditExpires(t *testing.T) {
	w, a, b := creditPair(t)
	w.quiet()
	if l := b.senders(); len(l.List) != 0 || l.Free != creditBudget || l.Outstanding != 0 {
		t.Fatalf("after its life: %+v", l)
	}
	share := uint64(creditConfig(creditBudget).Receiver.ShareBytes)
	if a.credits().Returned() != share || b.credits().Unused() != share {
		t.Errorf("%d bytes returned, %d came back, want %d", a.credits().Returned(), b.credits().Unused(), share)
	}
	a.send(100)
	a.poll(1)
	a.send(100)
	a.poll(1)
	if used, flows := a.credits().Used(), b.credits().FlowsFree(); used != 100 || flows != 2 {
		t.Errorf("%d bytes used, want 100; %d flows got free pre-credit, want 2", used, flows)
	}
	w.quiet()
	b.conserved(creditBudget)
}

// S5.2 in the registers: a node that is in the list keeps its share, then free pre-credit is
// given, and then the first of the list gives up its own.
func TestPreCreditList(t *testing.T) {
	w := newCreditNodes(t, 5)
	config := creditConfig(2*creditBurst + 5*creditPacket)
	budget := config.Receiver.BufferBytes
	for _, s := range w.side {
		s.enable(config)
	}
	hub := w.side[0]
	nodes := func() (list []uint32) {
		for _, e := range hub.senders().List {
			list = append(list, uint32(e.ID))
		}
		return list
	}
	var ends []*endpoint
	for i, want := range [][]uint32{{2}, {2, 3}, {2, 3, 4}, {3, 5, 4}} {
		_, b := w.pair(hub, w.side[i+1], rocev2.PMTU1024)
		ends = append(ends, b)
		w.after(4 * creditDelay)
		if got := nodes(); !slices.Equal(got, want) {
			t.Fatalf("after node %d the list is %v, want %v: %+v", i+2, got, want, hub.senders())
		}
		hub.conserved(budget)
	}
	w.pair(hub, w.side[3], rocev2.PMTU1024) // a second queue pair: its node is in the list
	w.after(4 * creditDelay)
	c := hub.credits()
	if c.FlowsFree() != 3 || c.FlowsHead() != 1 || c.FlowsShare() == 0 || !slices.Equal(nodes(), []uint32{3, 5, 4}) {
		t.Errorf("flows: %d free, %d head, %d share; list %v", c.FlowsFree(), c.FlowsHead(), c.FlowsShare(), nodes())
	}
	// The last queue pair of a node leaves the list.
	if err := ends[1].peer.qp.Modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	w.after(4 * creditDelay)
	if got := nodes(); !slices.Equal(got, []uint32{5, 4}) {
		t.Errorf("after node 3 was disconnected the list is %v", got)
	}
	hub.conserved(budget)
}

// What a node was given that died comes back, and the budget holds until then.
func TestPreCreditDeadNode(t *testing.T) {
	w := newCreditNodes(t, 3)
	config := creditConfig(creditBurst)
	for _, s := range w.side {
		s.enable(config)
	}
	hub := w.side[0]
	dead := false
	w.trace(func(e *creditEvent) bool {
		hub.conserved(creditBurst)
		return dead && (e.from == 2 || e.to == 2)
	})
	w.pair(hub, w.side[1], rocev2.PMTU1024)
	w.after(4 * creditDelay)
	dead = true
	_, b := w.pair(hub, w.side[2], rocev2.PMTU1024)
	w.after(4 * creditDelay)
	if l := hub.senders().List; len(l) != 1 || l[0].ID != 3 || l[0].Outstanding != 0 {
		t.Errorf("node 3 has %+v while node 2 may still have its pre-credit", l)
	}
	w.after(second + second/10)
	if l := hub.senders(); l.Outstanding != 0 || l.Free != creditBurst || hub.credits().Reclaimed() != creditBurst {
		t.Errorf("%+v, %d bytes reclaimed", l, hub.credits().Reclaimed())
	}
	for range 2 { // the first message is a new flow, which gets what is free
		b.send(creditBurst)
		b.poll(1)
	}
	if b.credits().Used() != creditBurst {
		t.Errorf("node 3 used %d bytes", b.credits().Used())
	}
}

// A large flow without pre-credit waits for the first feedback while something is in flight, and
// then begins with as much; a small one does not wait.
func TestPreCreditLargeFlowWaits(t *testing.T) {
	for _, size := range []int{paceBytes, 5000} {
		w := newCreditNodes(t, 2)
		for _, s := range w.side {
			s.enable(creditConfig(creditBudget))
		}
		a, _ := w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
		c, _ := w.pair(w.side[0], w.side[1], rocev2.PMTU1024)
		all := w.trace(func(e *creditEvent) bool { return e.op == rocev2.OpCreditGrant })
		start := w.net.Now()
		a.send(1024)
		c.fill(0, size, 1)
		c.send(size)
		a.poll(1)
		at := func(when qp.Time) (sent int) {
			for _, e := range *all {
				if e.data() && e.at == when {
					sent += int(e.bytes)
				}
			}
			return sent
		}
		sent := at(start)
		c.poll(1)
		c.peer.wants(0, c.read(0, size), "write")
		large := size == paceBytes
		if got := sent == 1024; got != large || (a.credits().Blocked() == 1) != large || (a.credits().Ramps() == 1) != large {
			t.Errorf("%d bytes: %d leave at once, %d flows blocked, %d ramps", size, sent, a.credits().Blocked(), a.credits().Ramps())
		}
		// One packet was in flight at the first feedback, which doubles the window.
		if next := at(start + creditRTT); large && (next == 0 || next > 3*creditPacket) {
			t.Errorf("%d bytes leave at the first feedback", next)
		}
	}
}

// A timeout voids the pre-credit that is left: nothing is known of the path.
func TestPreCreditTimeout(t *testing.T) {
	w, a, b := creditPair(t)
	w.after(4 * creditDelay)
	dead := true
	w.trace(func(e *creditEvent) bool { return dead && e.data() })
	a.send(creditPacket)
	w.after(second / 2)
	share := uint64(creditConfig(creditBudget).Receiver.ShareBytes)
	if used, returned := a.credits().Used(), a.credits().Returned(); used != creditPacket || returned != share-creditPacket {
		t.Errorf("%d bytes used and %d given up, want %d and %d", used, returned, creditPacket, share-creditPacket)
	}
	if c := b.credits(); c.Unused() != share-creditPacket || c.Lost() != creditPacket {
		t.Errorf("%d bytes came back unused, %d were lost", c.Unused(), c.Lost())
	}
	dead = false
	a.poll(1)
	b.conserved(creditBudget)
}

// Packets that have no room for the option use no pre-credit.
func TestPreCreditNeedsRoom(t *testing.T) {
	w := newCreditNodes(t, 2)
	for _, s := range w.side {
		s.enable(creditConfig(creditBudget))
	}
	a, b := w.pair(w.side[0], w.side[1], rocev2.PMTU4096) // the MTU of the ports is 4200
	w.after(4 * creditDelay)
	a.send(paceBytes)
	a.poll(1)
	if a.credits().Used() != 0 || b.credits().GrantsSent() != 0 {
		t.Errorf("%d bytes used, %d grants", a.credits().Used(), b.credits().GrantsSent())
	}
}
