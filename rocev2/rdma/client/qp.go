// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// QP is a queue pair. It implements verbs.QP.
type QP struct {
	pd     *PD
	handle uint32
	num    uint32

	sendMu sync.Mutex
	memory []byte // nil from Destroy on; both locks are held to change it
	send   *ring.Producer
	queue  uint32          // number of the send queue
	rules  verbs.SendRules // work requests that are taken, whatever the state

	recvMu    sync.Mutex
	recvRules verbs.RecvRules // receives that are taken, whatever the state
	recv      *ring.Producer  // nil with an SRQ
	recvQueue uint32
}

var (
	_ verbs.QP       = (*QP)(nil)
	_ seal.Encrypter = (*QP)(nil)
)

var errForeign = errors.New("the queues of a queue pair must be of its device")

// CreateQP implements verbs.PD. The limits that init leaves out are 128 work requests, 1 element and
// no inline data.
func (p *PD) CreateQP(init verbs.QPInit) (verbs.QP, error) {
	if init.SendCQ == nil || init.RecvCQ == nil {
		return nil, errors.New("a queue pair needs a completion queue for each direction; both may be the same")
	}
	send, ok1 := init.SendCQ.(*CQ)
	recv, ok2 := init.RecvCQ.(*CQ)
	if !ok1 || !ok2 || send.d != p.d || recv.d != p.d {
		return nil, errForeign
	}
	m, err := p.requestOfQP(&init)
	if err != nil {
		return nil, err
	}
	m.SendCQ, m.RecvCQ = send.handle, recv.handle
	var r proto.CreateQPReply
	b, err := p.d.mapReply(proto.TCreateQP, m, &r, func() (uint32, int) { return placeOfQP(m, &r) })
	if err != nil {
		return nil, err
	}
	q, err := p.newQP(m, &r, b)
	if err != nil {
		return nil, err // not q: an interface that holds a nil *QP is not nil
	}
	return q, nil
}

// requestOfQP is the request for a queue pair, without the completion queues.
func (p *PD) requestOfQP(init *verbs.QPInit) (*proto.CreateQP, error) {
	if init.SRQ != nil { // those of the SRQ count
		init.MaxRecv, init.MaxRecvSGE = 0, 0
	}
	if err := p.d.checkSizes(init); err != nil {
		return nil, err
	}
	m := &proto.CreateQP{
		PD: p.handle, Type: uint8(init.Type), MaxSend: uint32(cmp.Or(init.MaxSend, 128)), MaxRecv: uint32(cmp.Or(init.MaxRecv, 128)),
		MaxSendSGE: uint32(cmp.Or(init.MaxSendSGE, 1)), MaxRecvSGE: uint32(cmp.Or(init.MaxRecvSGE, 1)), MaxInline: uint32(init.MaxInline), Payload: uint16(init.Payload),
	}
	if init.SignalAll {
		m.SignalAll = 1
	}
	if init.OutOfOrder {
		m.OutOfOrder = 1
	}
	if init.Payload < 0 || init.Payload > math.MaxUint16 { // the agent judges the others
		return nil, fmt.Errorf("client: Payload is %d: choose a multiple of 4 in 256..4096", init.Payload)
	}
	if init.SRQ != nil {
		s, ok := init.SRQ.(*SRQ)
		if !ok || s.d != p.d {
			return nil, errForeign
		}
		m.SRQ = s.handle
	}
	return m, nil
}

// checkSizes refuses sizes that the message to the agent has no room for.
func (d *Device) checkSizes(i *verbs.QPInit) error {
	for _, s := range []struct {
		what     string
		v, limit int
	}{
		{"MaxSend", i.MaxSend, d.limits.WR}, {"MaxRecv", i.MaxRecv, d.limits.WR}, {"MaxSendSGE", i.MaxSendSGE, d.limits.SGE},
		{"MaxRecvSGE", i.MaxRecvSGE, d.limits.SGE}, {"MaxInline", i.MaxInline, d.limits.Inline},
	} {
		if s.v < 0 || s.v > s.limit {
			return fmt.Errorf("%s is %d; choose 1 to %d", s.what, s.v, s.limit)
		}
	}
	return nil
}

// placeOfQP is where the rings of a queue pair are in their file, and their bytes.
func placeOfQP(m *proto.CreateQP, r *proto.CreateQPReply) (offset uint32, n int) {
	n = ring.Shape(r.Send).Bytes()
	if m.SRQ == 0 {
		n += ring.Shape(r.Recv).Bytes()
	}
	return r.Offset, n
}

// newQP is the queue pair of a reply, whose rings are in b. After an error the server has it no more.
func (p *PD) newQP(m *proto.CreateQP, r *proto.CreateQPReply, b []byte) (*QP, error) {
	d := p.d
	q := &QP{pd: p, handle: r.Handle, num: r.QPN, memory: b, queue: r.SendQueue, recvQueue: r.RecvQueue}
	q.rules = verbs.SendRules{
		Type: verbs.QPType(m.Type), OutOfOrder: m.OutOfOrder != 0, MaxSGE: int(m.MaxSendSGE), MaxInline: int(m.MaxInline),
	}
	q.recvRules = verbs.RecvRules{SRQ: m.SRQ != 0, MaxSGE: int(m.MaxRecvSGE)}
	if err := q.open(r, m); err != nil {
		q.unmap()
		return nil, errors.Join(err, d.undo(r))
	}
	d.mu.Lock()
	d.qps[q.handle] = q
	d.mu.Unlock()
	return q, nil
}

// open opens the rings.
func (q *QP) open(r *proto.CreateQPReply, m *proto.CreateQP) error {
	send, err := ring.Open(q.memory, ring.Shape(r.Send))
	if err != nil {
		return err
	}
	q.send = ring.NewProducer(send, m.MaxSend)
	if m.SRQ != 0 {
		return nil
	}
	recv, err := ring.Open(q.memory[ring.Shape(r.Send).Bytes():], ring.Shape(r.Recv))
	if err != nil {
		return err
	}
	q.recv = ring.NewProducer(recv, m.MaxRecv)
	return nil
}

// QPN implements verbs.QP.
func (q *QP) QPN() uint32 { return q.num }

// Type implements verbs.QP.
func (q *QP) Type() verbs.QPType { return q.rules.Type }

// State implements verbs.QP.
func (q *QP) State() verbs.State {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	return q.state()
}

// state is State with one of the locks held.
func (q *QP) state() verbs.State {
	if q.memory == nil {
		return verbs.StateReset
	}
	return verbs.State(q.send.State().Load())
}

// Modify implements verbs.QP.
func (q *QP) Modify(a verbs.Attr, mask verbs.AttrMask) error {
	if q.destroyed() {
		return errDestroyed
	}
	m := requestOfModify(q.handle, a, mask)
	if err := q.pd.d.plain(proto.TModifyQP, m, nil); err != nil {
		return err
	}
	q.modified(m)
	return nil
}

func requestOfModify(handle uint32, a verbs.Attr, mask verbs.AttrMask) *proto.ModifyQP {
	return &proto.ModifyQP{Handle: handle, Mask: uint32(mask), Attr: proto.AttrOf(a)}
}

// modified notes what the server has done.
func (q *QP) modified(m *proto.ModifyQP) {
	a, mask := m.Attr.Verbs(), verbs.AttrMask(m.Mask)
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	if mask&verbs.MaskState != 0 && a.State == verbs.StateReset {
		q.rules.PMTU, q.rules.MaxRdAtomic = 0, 0
	}
	if mask&verbs.MaskPMTU != 0 {
		q.rules.PMTU = a.PMTU
	}
	if mask&verbs.MaskMaxRdAtomic != 0 {
		q.rules.MaxRdAtomic = a.MaxRdAtomic
	}
}

// Encrypt implements seal.Encrypter. The server takes no MaxBlocks below proto.MinBlocks.
func (q *QP) Encrypt(k seal.Keys, l seal.Limits) error {
	return q.pd.d.plain(proto.TEncryptQP, &proto.EncryptQP{
		Handle: q.handle, Suite: uint8(k.Suite), Send: k.Send, Receive: k.Receive, MaxBlocks: l.MaxBlocks, Overlap: l.Overlap,
	}, nil)
}

// Query implements verbs.QP.
func (q *QP) Query() (verbs.Attr, error) {
	if q.destroyed() {
		return verbs.Attr{}, errDestroyed
	}
	var r proto.Attr
	if err := q.pd.d.plain(proto.TQueryQP, &proto.Handle{Handle: q.handle}, &r); err != nil {
		return verbs.Attr{}, err
	}
	return r.Verbs(), nil
}

// destroyed reports whether Destroy was called.
func (q *QP) destroyed() bool {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	return q.memory == nil
}

var errDestroyed = fmt.Errorf("the queue pair %w", verbs.ErrDestroyed)

// PostSend implements verbs.QP: it writes the work request to the ring.
func (q *QP) PostSend(wr *verbs.SendWR) error {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	if q.memory == nil {
		return errDestroyed
	}
	d := q.pd.d
	if err := d.alive(); err != nil {
		return err
	}
	rules := q.rules
	rules.State = q.state()
	if _, err := verbs.CheckSend(wr, &rules); err != nil {
		return err
	}
	handle := uint32(0)
	if wr.AH != nil {
		a, ok := wr.AH.(*AH)
		if !ok || a.pd.d != d || a.gone.Load() {
			return errors.New("the address handle is none of this device, or was destroyed")
		}
		if a.pd != q.pd {
			return errors.New("the address handle is of another protection domain than the queue pair: make it with that of the queue pair")
		}
		if err := a.carries(wr); err != nil {
			return err
		}
		handle = a.handle
	}
	entry, err := q.send.Next()
	if err != nil {
		return err
	}
	if entry == nil {
		return verbs.ErrQueueFull
	}
	if err := wqe.EncodeSend(entry, q.rules.Type, wr, handle); err != nil {
		return err
	}
	q.send.Advance()
	d.posts.Add(1)
	q.send.Publish()
	d.ring(q.queue, q.send)
	return nil
}

// PostRecv implements verbs.QP.
func (q *QP) PostRecv(wr *verbs.RecvWR) error {
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	if q.memory == nil {
		return errDestroyed
	}
	if err := q.pd.d.alive(); err != nil {
		return err
	}
	rules := q.recvRules
	rules.State = q.state()
	if err := verbs.CheckRecv(wr, rules); err != nil {
		return err
	}
	return q.pd.d.postRecv(q.recv, q.recvQueue, wr)
}

// postRecv writes a receive to a ring, whose lock is held.
func (d *Device) postRecv(to *ring.Producer, queue uint32, wr *verbs.RecvWR) error {
	entry, err := to.Next()
	if err != nil {
		return err
	}
	if entry == nil {
		return verbs.ErrQueueFull
	}
	if err := wqe.EncodeRecv(entry, wr); err != nil {
		return err
	}
	to.Advance()
	d.posts.Add(1)
	to.Publish()
	d.ring(queue, to)
	return nil
}

// Destroy implements verbs.QP.
func (q *QP) Destroy() error {
	had, err := destroy(q.pd.d, q.pd.d.qps, q, q.handle, proto.TDestroyQP)
	if !had {
		return errDestroyed
	}
	return err
}

func (q *QP) detach() []byte {
	q.sendMu.Lock()
	q.recvMu.Lock()
	defer q.sendMu.Unlock()
	defer q.recvMu.Unlock()
	b := q.memory
	q.memory = nil
	return b
}

func (q *QP) attach(b []byte) {
	q.sendMu.Lock()
	q.recvMu.Lock()
	defer q.sendMu.Unlock()
	defer q.recvMu.Unlock()
	q.memory = b
}

func (q *QP) unmap() {
	q.sendMu.Lock()
	q.recvMu.Lock()
	defer q.sendMu.Unlock()
	defer q.recvMu.Unlock()
	if q.memory != nil {
		_ = unix.Munmap(q.memory)
		q.memory = nil
	}
}
