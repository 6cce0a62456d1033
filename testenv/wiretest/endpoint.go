// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Endpoint is an application on one queue pair. It posts Ops one after the other,
// as the send queue has room, and receives as Recv says, and fails the wire
// when a completion or a byte of memory is not what its model expects.
//
// The model executes an operation when it is posted: a queue pair's requests take
// effect in order, so whatever happens on the wire the outcome is known then.
// Endpoints share no memory.
type Endpoint struct {
	Name string
	Node *Node
	QP   *QP
	Peer *Endpoint   // RC, UC
	Dest []*Endpoint // UD: Op.Remote picks one
	Keys *seal.End   // nil: the queue pair is not encrypted
	Recv *Receives
	Ops  []Op

	// Failed is the status of the first work request that was not successful,
	// FailedOp its index in Ops (-1: a receive). Unless MayFail is set that fails
	// the run.
	MayFail  bool
	Failed   verbs.Status
	FailedOp int
	FailedAt qp.Time

	Done      int     // Ops whose end is known
	Completed int     // completions of the send queue
	Messages  int     // received
	Last      qp.Time // time of the last completion of the send queue

	maxSend int
	pool    *Region // source of SEND and WRITE
	target  *Region // memory that the peer may access
	want    []byte  // expected content of target
	landing *Region // destination of READ and ATOMIC
	landed  []byte  // expected content of landing
	head    int     // head of the landing ring, growing
	tail    int
	window  uint32 // key of a memory window
	bound   bool
	local   *posted // the last request that was about the window
	read    *posted // the last READ

	next     int // index in Ops of the next one to be posted
	silent   int // unsignaled in a row
	ready    qp.Time
	out      []*posted      // posted, end not known, oldest first
	history  []*posted      // UC: all
	expect   []message      // messages that the peer sends to this end
	sentHere []datagramSent // UD
	anything bool           // the peer is no Endpoint: there is no telling what it sends
	doubt    bool           // the answer to a READ or ATOMIC will never come
	disorder bool           // UC: the path reorders or duplicates
	Skipped  int            // UC: messages that did not come
}

// Sizes of an endpoint's regions.
const (
	poolSize    = 1 << 18
	maxMessage  = 1 << 16
	targetSize  = 1 << 17
	landingSize = 1 << 19
	maxInline   = 256
	atomicArea  = 256 // atomics go to the first bytes of the target
)

const allRemote = verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

func (e *Endpoint) makeMemory(pd uint32) {
	m := e.Node.Mem
	e.pool = m.Register(pd, poolSize, 0)
	rng := rand.NewChaCha8([32]byte{byte(e.QP.QPN())})
	rng.Read(e.pool.Data)
	e.pool.Written = func(uint32, int, []byte) { e.Node.w.Failf("%s: source data overwritten", e.Name) }
	e.target = m.Register(pd, targetSize, verbs.AccessLocalWrite|allRemote|verbs.AccessBindWindows)
	rng.Read(e.target.Data)
	e.want = bytes.Clone(e.target.Data)
	e.target.Written = e.targetWritten
	e.landing = m.Register(pd, landingSize, verbs.AccessLocalWrite)
	e.landed = make([]byte, landingSize)
	e.landing.Written = e.landingWritten
	e.window = m.AllocWindow(pd).Key
}

func (e *Endpoint) fail(format string, args ...any) {
	e.Node.w.Failf(e.Name+": "+format, args...)
}

// work posts what may be posted now.
func (e *Endpoint) work() {
	e.Recv.work()
	for e.next < len(e.Ops) && e.Node.w.err == nil {
		op := &e.Ops[e.next]
		if len(e.out) >= e.maxSend || e.ready > e.Node.w.now {
			return
		}
		if op.Delay > 0 {
			d := op.Delay
			op.Delay = 0
			e.ready = e.Node.w.now + d
			e.Node.w.After(d, e.Node.Serve)
			return
		}
		if !e.postOne(*op) {
			return
		}
		e.next++
	}
}

// postOne posts op and has the model execute it. False: no room for its answer.
func (e *Endpoint) postOne(op Op) bool {
	if isLocal(op.Kind) {
		op.Kind, op.Len = verbs.OpBindWindow, 0
		if e.bound {
			op.Kind = verbs.OpLocalInv
		}
	}
	p := &posted{id: uint64(e.next)<<8 | uint64(e.QP.QPN()&0xFF), op: op, end: e.head}
	wr := verbs.SendWR{ID: p.id, Op: op.Kind, Flags: op.Flags, Imm: op.Imm}
	if e.silent++; e.silent > 7 || e.next+1 == len(e.Ops) || len(e.out)+1 == e.maxSend {
		wr.Flags |= verbs.Signaled // else nobody knows when the end has come
	}
	if wr.Flags&verbs.Signaled != 0 {
		e.silent = 0
	}
	p.op.Flags = wr.Flags
	if !e.place(p, &wr) {
		return false
	}
	if e.mustFence(p) {
		wr.Flags |= verbs.Fence
	}
	p.op.Flags = wr.Flags
	e.execute(p, &wr)
	e.out = append(e.out, p)
	err := e.QP.PostSend(&wr)
	if err != nil {
		e.fail("PostSend(%v): %v", p.op, err)
		return false
	}
	// What was posted was copied.
	for i := range wr.SGL {
		wr.SGL[i] = verbs.SGE{Addr: 0xDEAD, Len: 0xDEAD, LKey: 0xDEAD}
	}
	for i := range wr.Data {
		wr.Data[i] = 0xDD
	}
	if e.QP.Type() == verbs.UC {
		e.history = append(e.history, p)
	}
	return true
}

// place fills in where the data of p comes from or goes to.
func (e *Endpoint) place(p *posted, wr *verbs.SendWR) bool {
	op := &p.op
	switch {
	case isLocal(op.Kind):
		return true
	case isAtomic(op.Kind):
		op.Len, op.Cuts = 8, 1
		p.at = op.Remote % (atomicArea / 8) * 8
	case op.Kind == verbs.OpRead || isWrite(op.Kind):
		p.at = op.Remote % (targetSize - op.Len + 1)
	}
	if op.Kind == verbs.OpRead || isAtomic(op.Kind) {
		return e.reserve(p, wr)
	}
	if op.Relay {
		op.Len = e.read.op.Len
		p.data = e.read.data
		for _, s := range e.read.land {
			wr.SGL = append(wr.SGL, verbs.SGE{Addr: e.landing.Addr + uint64(s.off), Len: uint32(s.n), LKey: e.landing.Key})
		}
		if isWrite(op.Kind) {
			p.at = op.Remote % (targetSize - op.Len + 1)
		}
		return true
	}
	left := op.Len
	for i := range op.Cuts {
		n := left / (op.Cuts - i)
		if i%2 == 1 {
			n /= 2
		}
		if i == op.Cuts-1 {
			n = left
		}
		off := (op.Source + i*7919) % (poolSize - maxMessage)
		p.data = append(p.data, e.pool.Data[off:off+n]...)
		wr.SGL = append(wr.SGL, verbs.SGE{Addr: e.pool.Addr + uint64(off), Len: uint32(n), LKey: e.pool.Key})
		left -= n
	}
	if op.Flags&verbs.Inline != 0 {
		wr.Data, wr.SGL = bytes.Clone(p.data), nil
	}
	return true
}

// reserve takes a place of the landing ring for what p brings.
func (e *Endpoint) reserve(p *posted, wr *verbs.SendWR) bool {
	op := &p.op
	n := op.Len + gap*op.Cuts
	head := e.head
	if head%landingSize+n > landingSize {
		head += landingSize - head%landingSize
	}
	if head+n-e.tail > landingSize {
		if len(e.out) == 0 {
			e.tail = head // everything is free
			e.head = head
			return e.reserve(p, wr)
		}
		return false
	}
	left, off := op.Len, head%landingSize
	for i := range op.Cuts {
		n := left / (op.Cuts - i)
		p.land = append(p.land, span{off, n})
		wr.SGL = append(wr.SGL, verbs.SGE{Addr: e.landing.Addr + uint64(off), Len: uint32(n), LKey: e.landing.Key})
		left -= n
		off += n + gap
	}
	e.head = head + n
	p.end = e.head
	p.pin = e.next+1 < len(e.Ops) && e.Ops[e.next+1].Relay
	return true
}

// mustFence says whether only a fence makes the outcome of p certain: it changes
// what an earlier READ reads, or sends what that brings (IBTA 10.8.3.3, table of
// ordering rules).
func (e *Endpoint) mustFence(p *posted) bool {
	if p.op.Relay {
		return true
	}
	if !isWrite(p.op.Kind) && !isAtomic(p.op.Kind) {
		return false
	}
	for i := len(e.out) - 1; i >= 0; i-- {
		o := e.out[i]
		if o.op.Kind == verbs.OpRead && (span{p.at, p.op.Len}).overlaps(span{o.at, o.op.Len}) {
			return true
		}
		if o.op.Flags&verbs.Fence != 0 {
			break
		}
	}
	return false
}

// execute has the model do what p asks for.
func (e *Endpoint) execute(p *posted, wr *verbs.SendWR) {
	op := &p.op
	peer := e.Peer
	if peer != nil && !isSend(op.Kind) {
		wr.RemoteAddr, wr.RKey = peer.target.Addr+uint64(p.at), peer.target.Key
		if op.BadKey {
			wr.RKey ^= 0x30
		}
		if op.BadRange {
			wr.RemoteAddr = peer.target.Addr + targetSize - uint64(op.Len) + 1
		}
	}
	m := message{kind: op.Kind, data: p.data, remote: p.at, imm: op.Imm, solicited: op.Flags&verbs.Solicited != 0}
	switch {
	case op.BadKey || op.BadRange:
		return
	case e.QP.Type() == verbs.UD:
		to := e.Dest[op.Remote%len(e.Dest)]
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = e.Node.handleTo(to.Node), to.QP.QPN(), qKey
		to.sentHere = append(to.sentHere, datagramSent{message: m, from: e})
		return
	case op.Kind == verbs.OpSendInv:
		r := peer.Node.Mem.Register(peer.target.PD, 64, verbs.AccessLocalWrite|allRemote)
		wr.InvKey, m.invKey = r.Key, r.Key
	case isWrite(op.Kind):
		if e.QP.Type() == verbs.RC {
			copy(peer.want[p.at:], p.data)
		}
	case op.Kind == verbs.OpRead:
		p.data = bytes.Clone(peer.want[p.at : p.at+op.Len])
		e.read = p
	case isAtomic(op.Kind):
		cell := peer.want[p.at : p.at+8]
		p.data = bytes.Clone(cell)
		old := binary.NativeEndian.Uint64(cell)
		if op.Kind == verbs.OpFetchAdd {
			wr.Add = op.A
			binary.NativeEndian.PutUint64(cell, old+op.A)
			break
		}
		wr.Compare, wr.Swap = op.A, op.B
		if op.A%2 == 0 { // half of them hit
			wr.Compare = old
			binary.NativeEndian.PutUint64(cell, op.B)
		} else if op.A == old {
			binary.NativeEndian.PutUint64(cell, op.B)
		}
	case op.Kind == verbs.OpBindWindow:
		key := e.window&^0xFF | uint32(byte(e.window)+1)
		wr.Bind = verbs.Bind{
			Window: e.window, Region: e.target.Key, Addr: e.target.Addr + 64, Length: 512,
			Access: verbs.AccessRemoteRead, NewKey: uint8(key),
		}
		e.window, e.bound, e.local = key, true, p
	case op.Kind == verbs.OpLocalInv:
		wr.InvKey = e.window
		e.bound, e.local = false, p
	}
	if receives(op.Kind) {
		peer.expect = append(peer.expect, m)
	}
}
