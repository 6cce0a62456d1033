// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"errors"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Calls that belong together. A device in another process does them with one message, of which it takes a limited
// number per second. Others have them one after the other.

// pairMaker is an optional interface of a protection domain. The memory is of Alloc.
type pairMaker interface {
	CreatePair(depth int, init verbs.QPInit, a verbs.Attr, mem []byte) (verbs.CQ, verbs.QP, verbs.MR, error)
}

// pairEnder is an optional interface of a device.
type pairEnder interface {
	DestroyPair(qp verbs.QP, cq verbs.CQ) error
}

// connector is an optional interface of a session of the communication manager.
type connector interface {
	ConnectReady(id cm.ID, qp verbs.QP, p cm.Path) error
	ConnectAccept(id cm.ID, qp verbs.QP, p cm.Path, private []byte) error
	Hangup(id cm.ID, qp verbs.QP) error
}

// createPair makes a completion queue of a depth, a queue pair that uses it for both directions and is in INIT with
// the attributes of verbs.DefaultAttr, and a region of mem. After an error there is none of them.
func createPair(dev verbs.Device, pd verbs.PD, depth int, init verbs.QPInit, mem []byte) (cq verbs.CQ, qp verbs.QP, mr verbs.MR, err error) {
	if p, ok := pd.(pairMaker); ok {
		return p.CreatePair(depth, init, verbs.DefaultAttr(), mem)
	}
	defer func() {
		if err == nil {
			return
		}
		if mr != nil {
			err = errors.Join(err, mr.Deregister())
		}
		if qp != nil {
			err = errors.Join(err, qp.Destroy())
		}
		if cq != nil {
			err = errors.Join(err, cq.Destroy())
		}
		cq, qp, mr = nil, nil, nil
	}()
	if cq, err = dev.CreateCQ(depth); err != nil {
		return nil, nil, nil, err // not cq: it may be an interface that holds nil
	}
	init.SendCQ, init.RecvCQ = cq, cq
	if qp, err = pd.CreateQP(init); err != nil {
		return cq, nil, nil, err
	}
	if mr, err = pd.RegMR(mem, verbs.AccessLocalWrite); err != nil {
		return cq, qp, nil, err
	}
	return cq, qp, mr, verbs.ToInit(qp, verbs.Endpoint{}, verbs.DefaultAttr())
}

// destroyPair destroys a queue pair, and then its completion queue.
func destroyPair(dev verbs.Device, qp verbs.QP, cq verbs.CQ) error {
	if d, ok := dev.(pairEnder); ok {
		return d.DestroyPair(qp, cq)
	}
	return errors.Join(qp.Destroy(), cq.Destroy())
}

// connectReady brings a queue pair to RTS and calls Ready.
func connectReady(s cm.Session, id cm.ID, qp verbs.QP, p cm.Path) error {
	if x, ok := s.(connector); ok {
		return x.ConnectReady(id, qp, p)
	}
	if err := p.Connect(qp); err != nil {
		return err
	}
	return s.Ready(id, nil)
}

// connectAccept brings a queue pair to RTS and accepts the request of the peer.
func connectAccept(s cm.Session, id cm.ID, qp verbs.QP, p cm.Path, private []byte) error {
	if x, ok := s.(connector); ok {
		return x.ConnectAccept(id, qp, p, private)
	}
	if err := p.Connect(qp); err != nil {
		return err
	}
	return s.Accept(id, p, private)
}

// hangup brings a queue pair to ERR and disconnects. The error is that of Disconnect.
func hangup(s cm.Session, id cm.ID, qp verbs.QP) error {
	if x, ok := s.(connector); ok {
		return x.Hangup(id, qp)
	}
	_ = qp.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState) // fails if the device has ended
	return s.Disconnect(id, nil)
}
