// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"bytes"
	"errors"
	"math/rand/v2"

	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// OOOMessage is one message of an OOOApp.
type OOOMessage struct {
	Op     verbs.Op // OpWrite or OpRead
	Notify bool
	Len    int
}

// OOOApp is an application on a queue pair in out-of-order mode. It posts messages and checks
// that memory is right when their end is reported, that each notification comes once, and that
// nothing is written outside of that.
//
// Each message has a slot of the target's memory (WRITE) or of its own (READ). A slot is used by
// one message at a time. Before, it is filled with the complement of what must arrive, so that a
// missing byte shows. While no message has the slot, nothing may be written to it.
type OOOApp struct {
	QP   *ooo.QP
	Next func(i int) (OOOMessage, bool) // the message to post next, if there is one
	Done func(i int)                    // callback, or nil; after the end of message i was reported

	Posted    int
	Completed int
	Notified  int
	Notifies  int // messages posted with Notify
	Bytes     int // bytes of completed messages
	Last      qp.Time

	// Started and Ended are the times of each message: posted, and reported to its consumer (at the
	// target if it has a notification).
	Started, Ended []qp.Time

	node, peer *OOONode
	sides      [2]oooSide
	slots      []*oooSlot
	slotLen    int
	byMessage  map[uint64]*oooSlot
}

// oooSlot is a range of one side's memory.
type oooSlot struct {
	off       int
	i         int // the message that has it
	op        OOOMessage
	want      []byte
	busy      bool
	notified  bool
	completed bool
}

// oooQueue is the notification receive queue of the application at the peer.
const oooQueue = 7

// NewOOOApp makes an application on node with queue pairs at both ends. slots messages of up to
// slotLen bytes may be outstanding.
func NewOOOApp(node, peer *OOONode, cfg ooo.Config, qpn uint32, slots, slotLen int) *OOOApp {
	a := &OOOApp{node: node, peer: peer, slotLen: slotLen, byMessage: map[uint64]*oooSlot{}}
	cfg.QPN, cfg.PeerQPN, cfg.Complete = qpn, qpn|0x800000, a.complete
	if cfg.Messages == 0 {
		cfg.Messages = 1
		for cfg.Messages < 4*slots { // old messages may be outstanding longer than newer ones
			cfg.Messages *= 2
		}
	}
	a.QP = node.Create(cfg)
	other := cfg
	other.QPN, other.PeerQPN, other.Complete = cfg.PeerQPN, cfg.QPN, nil
	other.SendPSN, other.RecvPSN = cfg.RecvPSN, cfg.SendPSN
	peer.Create(other)
	a.memory(slots)
	queue, err := peer.Queues.Create(oooQueue+qpn, 2*slots)
	if err != nil {
		node.w.Failf("%v", err)
		return a
	}
	queue.Ready = func(ooo.Notification) {
		n, _ := queue.Poll()
		a.notify(n)
	}
	old := node.Tick
	node.Tick = func() {
		if old != nil {
			old()
		}
		a.work()
	}
	return a
}

// oooSide is the memory of one side: what is read, and what is written.
type oooSide struct{ pool, landing *Region }

func (a *OOOApp) memory(slots int) {
	rng := rand.NewChaCha8([32]byte{byte(a.QP.QPN()), 3})
	var side [2]oooSide
	for i, n := range []*OOONode{a.node, a.peer} {
		side[i].pool = n.Mem.Register(0, 1<<16+a.slotLen, verbs.AccessRemoteRead)
		side[i].landing = n.Mem.Register(0, slots*a.slotLen, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
		rng.Read(side[i].pool.Data)
		read := i == 0
		side[i].landing.Written = func(_ uint32, off int, data []byte) { a.written(read, off, data) }
	}
	for i := range slots {
		a.slots = append(a.slots, &oooSlot{off: i * a.slotLen})
	}
	a.sides = side
}

// written checks a write to a slot.
func (a *OOOApp) written(read bool, off int, data []byte) {
	s := a.slots[off/a.slotLen]
	at := off - s.off
	switch {
	case !s.busy || s.done() || (s.op.Op == verbs.OpRead) != read:
		a.fail("message %d: %d bytes are written at %d after its end", s.i, len(data), at)
	case at+len(data) > s.op.Len || !bytes.Equal(data, s.want[at:at+len(data)]):
		a.fail("message %d: %d wrong bytes are written at %d", s.i, len(data), at)
	}
}

// done reports whether all data must be there.
func (s *oooSlot) done() bool { return s.notified || s.completed }

func (a *OOOApp) fail(format string, args ...any) {
	a.node.w.Failf("QP %d: "+format, append([]any{a.QP.QPN()}, args...)...)
}

// work posts messages while there are free slots.
func (a *OOOApp) work() {
	for _, s := range a.slots {
		if s.busy {
			continue
		}
		op, ok := a.Next(a.Posted)
		if !ok || a.node.w.err != nil {
			return
		}
		if !a.post(s, op) {
			return
		}
	}
}

// post posts a message that has this slot. It returns false if the queue pair is full.
func (a *OOOApp) post(s *oooSlot, op OOOMessage) bool {
	from, to := a.sides[0], a.sides[1]
	if op.Op == verbs.OpRead {
		from, to = to, from
	}
	at := a.node.w.Rand.IntN(1 << 16)
	*s = oooSlot{off: s.off, i: a.Posted, op: op, busy: true, want: from.pool.Data[at : at+op.Len]}
	landing := to.landing.Data[s.off : s.off+op.Len]
	for i, b := range s.want {
		landing[i] = ^b
	}
	r := ooo.Request{
		ID: uint64(s.i), Op: op.Op, Notify: op.Notify, Queue: oooQueue + a.QP.QPN(), Descriptor: uint64(s.i),
		Local:      verbs.SGE{Addr: from.pool.Addr + uint64(at), Len: uint32(op.Len), LKey: from.pool.Key},
		RemoteAddr: to.landing.Addr + uint64(s.off), RKey: to.landing.Key,
	}
	if op.Op == verbs.OpRead {
		r.Local = verbs.SGE{Addr: to.landing.Addr + uint64(s.off), Len: uint32(op.Len), LKey: to.landing.Key}
		r.RemoteAddr, r.RKey = from.pool.Addr+uint64(at), from.pool.Key
	}
	if err := a.QP.Post(&r); err != nil {
		s.busy = false
		if !errors.Is(err, ooo.ErrFull) || len(a.byMessage) == 0 {
			a.fail("message %d: %v", s.i, err)
		}
		return false
	}
	a.byMessage[uint64(s.i)] = s
	a.Posted++
	a.Started, a.Ended = append(a.Started, a.node.w.now), append(a.Ended, 0)
	if op.Notify {
		a.Notifies++
	}
	return true
}

// check compares the slot with what must have arrived.
func (a *OOOApp) check(s *oooSlot, what string) {
	to := a.sides[1]
	if s.op.Op == verbs.OpRead {
		to = a.sides[0]
	}
	if !bytes.Equal(to.landing.Data[s.off:s.off+s.op.Len], s.want) {
		a.fail("message %d of %d bytes: %s before all data is in memory", s.i, s.op.Len, what)
	}
}

func (a *OOOApp) notify(n ooo.Notification) {
	s := a.byMessage[n.Descriptor]
	if s == nil || !s.op.Notify || s.notified || s.completed {
		a.fail("message %d: notified again", n.Descriptor)
		return
	}
	if int(n.Length) != s.op.Len || n.QPN != a.QP.QPN()|0x800000 {
		a.fail("message %d: notification %+v", s.i, n)
	}
	a.check(s, "notified")
	s.notified = true
	a.Notified++
	a.Ended[s.i] = a.node.w.now
}

func (a *OOOApp) complete(c verbs.Completion) {
	s := a.byMessage[c.WRID]
	switch {
	case s == nil:
		a.fail("message %d: completed again", c.WRID)
		return
	case c.Status != verbs.StatusSuccess || c.Op != s.op.Op:
		a.fail("message %d: %v %v", s.i, c.Op, c.Status)
	case s.op.Notify && !s.notified:
		a.fail("message %d: completed but not notified", s.i)
	}
	a.check(s, "completed")
	s.completed = true
	delete(a.byMessage, c.WRID)
	a.Completed++
	a.Bytes += s.op.Len
	a.Last = a.node.w.now
	if !s.op.Notify {
		a.Ended[s.i] = a.node.w.now
	}
	s.busy = false
	if a.Done != nil {
		a.Done(s.i)
	}
}

// Finish checks that everything posted has ended.
func (a *OOOApp) Finish() {
	if a.Completed != a.Posted || a.Notified != a.Notifies {
		a.fail("%d of %d messages completed, %d of %d notified", a.Completed, a.Posted, a.Notified, a.Notifies)
	}
	for _, n := range []*OOONode{a.node, a.peer} {
		if what := n.Quiet(); what != "" {
			a.fail("nothing happens any more, but %s", what)
		}
	}
}
