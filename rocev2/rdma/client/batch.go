// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Several calls in one message (proto.TBatch), of those that begin and end a connection: a message costs the server
// more than most calls, and the rate of a process is limited. Package rdma uses them.

// batch sends requests that the server executes in order, up to the first that fails. It returns how many it has
// executed. The descriptors are the caller's.
func (d *Device) batch(parts ...proto.Part) (fds []int, done int, err error) {
	a, err := d.exchange(proto.BatchWaits(parts), func(seq uint32) []byte { return proto.AppendBatch(nil, seq, parts) })
	if err != nil {
		return nil, 0, err
	}
	if a.status != proto.StatusOK {
		return a.fds, 0, &proto.Error{Status: a.status, Text: string(a.body)}
	}
	done, err = proto.DecodeResults(a.body, parts)
	return a.fds, done, err
}

// steps collects the requests of Modify. It implements verbs.Modifier.
type steps struct {
	typ   verbs.QPType
	state verbs.State
	qp    uint32 // handle of the queue pair; 0: the batch makes it
	parts []proto.Part
}

func (s *steps) Type() verbs.QPType { return s.typ }

func (s *steps) State() verbs.State { return s.state }

func (s *steps) Modify(a verbs.Attr, mask verbs.AttrMask) error {
	s.parts = append(s.parts, proto.Part{Type: proto.TModifyQP, Request: requestOfModify(s.qp, a, mask)})
	return nil
}

// error adds to the error of the i-th request which step has failed.
func (s *steps) error(i int, err error) error {
	return fmt.Errorf("%s queue pair to %s: %w", s.typ, verbs.State(s.parts[i].Request.(*proto.ModifyQP).Attr.State), err)
}

// CreatePair makes a completion queue, a queue pair that uses it for both directions, whatever init says, and is in
// INIT with the attributes a, and a region of mem, which is memory of Alloc. After an error there is none of them.
func (p *PD) CreatePair(depth int, init verbs.QPInit, a verbs.Attr, mem []byte) (verbs.CQ, verbs.QP, verbs.MR, error) {
	x, err := p.createPair(depth, &init, a, mem)
	if err != nil {
		return nil, nil, nil, err
	}
	return x.cq, x.qp, x.mr, nil
}

type pair struct {
	cq *CQ
	qp *QP
	mr *MR
}

func (p *PD) createPair(depth int, init *verbs.QPInit, a verbs.Attr, mem []byte) (x pair, err error) {
	d := p.d
	if err := d.checkDepth(depth); err != nil {
		return x, err
	}
	forQP, err := p.requestOfQP(init)
	if err != nil {
		return x, err
	}
	toInit := steps{typ: init.Type}
	if err := verbs.ToInit(&toInit, verbs.Endpoint{}, a); err != nil {
		return x, err
	}
	mr, forMR, err := p.newMR(mem, addressOf(mem), verbs.AccessLocalWrite, proto.Group{})
	if err != nil {
		return x, err
	}
	if forMR == nil {
		mr.dropMemory()
		return x, errors.New("client: the memory of a pair is not of Alloc")
	}
	var cq proto.CreateCQReply
	var qp proto.CreateQPReply
	var region proto.RegReply
	parts := append([]proto.Part{
		{Type: proto.TCreateCQ, Request: &proto.CreateCQ{Depth: uint32(depth)}, Reply: &cq},
		{Type: proto.TRegArena, Request: forMR, Reply: &region},
		{Type: proto.TCreateQP, Request: forQP, Reply: &qp},
	}, toInit.parts...)
	fds, done, err := d.batch(parts...)
	defer proto.CloseFDs(fds)
	if err == nil {
		if err = wantFDs(fds, 2); err == nil {
			x, err = p.openPair(depth, &cq, fds[0], forQP, &qp, fds[1])
		}
	}
	if err != nil {
		for _, made := range slices.Backward(parts[:done]) {
			_ = d.undo(made.Reply) // refused if it is gone already
		}
		if done == len(parts)-1 {
			err = toInit.error(0, err)
		}
	}
	if err := mr.made(&region, err); err != nil {
		return x, err
	}
	x.mr = mr
	x.qp.modified(toInit.parts[0].Request.(*proto.ModifyQP))
	return x, nil
}

// openPair maps the rings of both queues.
func (p *PD) openPair(depth int, cq *proto.CreateCQReply, cqFD int, m *proto.CreateQP, qp *proto.CreateQPReply, qpFD int) (x pair, err error) {
	offset, n := placeOfQP(m, qp)
	rings, err := mapShared(qpFD, int64(offset), n)
	if err != nil {
		return x, err
	}
	offset, n = placeOfCQ(cq)
	completions, err := mapShared(cqFD, int64(offset), n)
	if err != nil {
		return x, errors.Join(err, unix.Munmap(rings))
	}
	if x.qp, err = p.newQP(m, qp, rings); err != nil {
		return x, errors.Join(err, unix.Munmap(completions))
	}
	if x.cq, err = p.d.newCQ(depth, cq, completions); err != nil {
		return x, errors.Join(err, x.qp.Destroy())
	}
	return x, nil
}

// own returns a queue pair of the device of the session.
func (x *session) own(qp verbs.QP) (*QP, error) {
	q, ok := qp.(*QP)
	if !ok || q.pd.d != x.d {
		return nil, errForeign
	}
	return q, x.alive()
}

// connect brings a queue pair to RTS and executes a call of the communication manager.
func (x *session) connect(qp verbs.QP, p cm.Path, call proto.Part) error {
	q, err := x.own(qp)
	if err != nil {
		return err
	}
	s := steps{typ: q.Type(), state: q.State(), qp: q.handle}
	if err := p.Connect(&s); err != nil {
		return err
	}
	fds, done, err := x.d.batch(append(s.parts, call)...)
	proto.CloseFDs(fds)
	for _, part := range s.parts[:min(done, len(s.parts))] {
		q.modified(part.Request.(*proto.ModifyQP))
	}
	if err != nil && done < len(s.parts) {
		err = s.error(done, err)
	}
	return err
}

// ConnectReady brings a queue pair to RTS, as Connect of the path does, and calls Ready without private data.
func (x *session) ConnectReady(id cm.ID, q verbs.QP, p cm.Path) error {
	return x.connect(q, p, proto.Part{Type: proto.TCMReady, Request: &proto.CMCall{ID: uint32(id)}})
}

// ConnectAccept brings a queue pair to RTS, as Connect of the path does, and calls Accept.
func (x *session) ConnectAccept(id cm.ID, q verbs.QP, p cm.Path, private []byte) error {
	b, err := proto.CMPrivateOf(private)
	if err != nil {
		return err
	}
	return x.connect(q, p, proto.Part{Type: proto.TCMAccept, Request: &proto.CMAccept{ID: uint32(id), Path: proto.CMPathOf(p), Private: b}})
}

// Hangup brings a queue pair to ERR, and calls Disconnect without private data, whose error it returns.
func (x *session) Hangup(id cm.ID, qp verbs.QP) error {
	q, err := x.own(qp)
	if err != nil {
		return err
	}
	fds, done, err := x.d.batch(
		proto.Part{Type: proto.TModifyQP, Request: requestOfModify(q.handle, verbs.Attr{State: verbs.StateErr}, verbs.MaskState)},
		proto.Part{Type: proto.TCMDisconnect, Request: &proto.CMCall{ID: uint32(id)}},
	)
	proto.CloseFDs(fds)
	if err != nil && done == 0 {
		return x.Disconnect(id, nil)
	}
	return err
}
