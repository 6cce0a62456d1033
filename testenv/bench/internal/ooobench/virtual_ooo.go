// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"errors"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// outOfOrder sends each message as WRITE, with notification or without.
type outOfOrder struct {
	notify bool
	nodes  [2]*wiretest.OOONode
	q      *ooo.QP
	from   *wiretest.Region
	to     *wiretest.Region
	bad    string
}

const notifications = 1

// newOutOfOrder returns the maker of out-of-order mode with so many bytes of data in a packet.
func newOutOfOrder(payload int, notify bool) maker {
	return func(w *wiretest.Wire, f wiretest.Faults, on events) transport {
		return makeOutOfOrder(w, f, on, payload, notify)
	}
}

func makeOutOfOrder(w *wiretest.Wire, f wiretest.Faults, on events, payload int, notify bool) transport {
	t := &outOfOrder{notify: notify, nodes: w.NewOOOPair(1, portRate, delay)}
	cfg := ooo.Config{
		PMTU: rocev2.PMTU1024, Payload: payload, Window: 4 * window, InFlight: window, Messages: ooo.MaxMessages,
		InitialRTO: ooo.Millisecond, MinRTO: ooo.Millisecond, Seed: w.Rand.Uint64(),
	}
	cfg.QPN, cfg.PeerQPN = 1, 2
	cfg.Complete = func(c verbs.Completion) {
		if c.Status != verbs.StatusSuccess {
			t.bad = c.Status.String()
		}
		on.completed(int(c.WRID))
	}
	t.q = t.nodes[0].Create(cfg)
	cfg.QPN, cfg.PeerQPN, cfg.Complete = 2, 1, nil
	t.nodes[1].Create(cfg)
	t.from = t.nodes[0].Mem.Register(0, messageLen, 0)
	t.to = t.nodes[1].Mem.Register(0, messageLen, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	queue, err := t.nodes[1].Queues.Create(notifications, 16)
	if err != nil {
		t.bad = err.Error()
		return t
	}
	queue.Ready = func(ooo.Notification) {
		n, _ := queue.Poll()
		on.arrived(int(n.Descriptor))
	}
	for _, n := range t.nodes {
		n.Links[0].Faults = f
	}
	return t
}

func (t *outOfOrder) post(i int) bool {
	err := t.q.Post(&ooo.Request{
		ID: uint64(i), Op: verbs.OpWrite, Notify: t.notify, Queue: notifications, Descriptor: uint64(i),
		Local: verbs.SGE{Addr: t.from.Addr, Len: messageLen, LKey: t.from.Key}, RemoteAddr: t.to.Addr, RKey: t.to.Key,
	})
	if err != nil && !errors.Is(err, ooo.ErrFull) {
		t.bad = err.Error()
	}
	return err == nil
}

func (t *outOfOrder) serve() {
	for _, n := range t.nodes {
		n.Serve()
	}
}

func (t *outOfOrder) sentPerDelivered() float64 {
	c := &t.nodes[0].Count
	return float64(c.SentPackets) / float64(c.SentPackets-c.Resent)
}

func (t *outOfOrder) failure() string { return t.bad }

func (t *outOfOrder) negotiated() string { return "" }
