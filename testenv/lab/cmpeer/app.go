// SPDX-License-Identifier: Apache-2.0

// Package cmpeer has programs of librdmacm on the engine, as peers of those of Linux: ucmatose,
// rdma_client and rdma_server, udaddy, ib_send_bw of perftest. (rping is in rocev2/rdma/rping.) They connect by the
// device's communication manager.
package cmpeer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Device is what an App needs: a device with a communication manager.
type Device interface {
	verbs.Device
	cm.Connector
}

// App is one end of a connection: a session of its own, a queue pair and memory for messages.
type App struct {
	Session cm.Session
	QP      verbs.QP

	ctx  context.Context
	pd   verbs.PD
	cq   verbs.CQ
	mr   verbs.MR
	buf  []byte
	id   cm.ID
	undo []func() error

	early map[verbs.Op][]verbs.Completion // completions that were not asked for yet
}

const bufSize = 64 << 10

// New makes an App with a queue pair in INIT. ctx bounds all that it waits for.
func New(ctx context.Context, dev Device, t verbs.QPType) (a *App, err error) {
	a = &App{ctx: ctx, buf: make([]byte, bufSize), early: map[verbs.Op][]verbs.Completion{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if a.Session, err = dev.OpenCM(); err != nil {
		return a, err
	}
	a.undo = append(a.undo, a.Session.Close)
	if a.pd, err = dev.AllocPD(); err != nil {
		return a, err
	}
	a.undo = append(a.undo, a.pd.Free)
	if a.cq, err = dev.CreateCQ(256); err != nil {
		return a, err
	}
	a.undo = append(a.undo, a.cq.Destroy)
	all := verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	if a.mr, err = a.pd.RegMR(a.buf, all); err != nil {
		return a, err
	}
	a.undo = append(a.undo, a.mr.Deregister)
	a.QP, err = a.pd.CreateQP(verbs.QPInit{Type: t, SendCQ: a.cq, RecvCQ: a.cq, MaxSend: 64, MaxRecv: 64})
	if err != nil {
		return a, err
	}
	a.undo = append(a.undo, a.QP.Destroy)
	// The peer may send as soon as it is connected.
	return a, verbs.ToInit(a.QP, verbs.Endpoint{QKey: udQKey}, verbs.DefaultAttr())
}

// Close ends the session, which disconnects, and gives everything back.
func (a *App) Close() error {
	var errs []error
	for i := len(a.undo) - 1; i >= 0; i-- {
		errs = append(errs, a.undo[i]())
	}
	a.undo = nil
	return errors.Join(errs...)
}

// Await returns the next event, which must be of a kind.
func (a *App) Await(want cm.Kind) (cm.Event, error) {
	select {
	case e, ok := <-a.Session.Events():
		switch {
		case !ok:
			return e, errors.New("the session has ended")
		case e.Kind != want && e.Err != nil:
			return e, fmt.Errorf("event %s: %w; want %s", e.Kind, e.Err, want)
		case e.Kind != want:
			return e, fmt.Errorf("event %s, want %s", e.Kind, want)
		}
		return e, nil
	case <-a.ctx.Done():
		return cm.Event{}, fmt.Errorf("no event %s: %w", want, a.ctx.Err())
	}
}

// Patient changes attributes of a queue pair so that a peer that is silent for ten seconds, as a machine that is paused, is not given
// up.
func Patient(a *verbs.Attr) { a.Timeout = 20 }

// Dial connects to a port of the port space TCP.
func (a *App) Dial(local, peer netip.Addr, port uint16) error {
	attr := verbs.DefaultAttr()
	attr.MaxRdAtomic, attr.MaxDestRdAtomic = 1, 1
	Patient(&attr)
	id, err := a.Session.Connect(cm.ConnectParams{
		Local: local, Peer: peer, Service: mad.IPServiceID(mad.PortTCP, port), SrcPort: 40000, QPN: a.QP.QPN(), PSN: 0x222, Attr: attr,
	})
	if err != nil {
		return err
	}
	a.id = id
	rep, err := a.Await(cm.Reply)
	if err != nil {
		return err
	}
	if err := errors.Join(rep.Path.Connect(a.QP), a.Session.Ready(id, nil)); err != nil {
		return err
	}
	_, err = a.Await(cm.Established)
	return err
}

// Accept waits for a connection to a port that the session listens at.
func (a *App) Accept() error {
	req, err := a.Await(cm.Request)
	if err != nil {
		return err
	}
	path := req.Path
	path.Local.QPN, path.Remote.PSN = a.QP.QPN(), 0x111
	if err := errors.Join(path.Connect(a.QP), a.Session.Accept(req.ID, path, nil)); err != nil {
		return err
	}
	a.id = req.ID
	_, err = a.Await(cm.Established)
	return err
}

// HangUp disconnects and waits until both ends have done so. The peer may have been first.
func (a *App) HangUp() error {
	_ = a.Session.Disconnect(a.id, nil)
	_, err := a.Await(cm.Disconnected)
	return err
}

func (a *App) sge(at, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: a.mr.VA() + uint64(at), Len: uint32(n), LKey: a.mr.LKey()}}
}

func (a *App) recv(at, n int) error { return a.QP.PostRecv(&verbs.RecvWR{SGL: a.sge(at, n)}) }

// poll waits for one completion, which must be a success.
func (a *App) poll() (c verbs.Completion, err error) {
	var out [1]verbs.Completion
	for a.cq.Poll(out[:]) == 0 {
		if err := a.cq.Wait(a.ctx, false); err != nil {
			return c, err
		}
	}
	if c = out[0]; c.Status != verbs.StatusSuccess {
		return c, fmt.Errorf("operation %d: %s", c.Op, c.Status)
	}
	return c, nil
}

// complete waits for n completions of an operation, and returns the last. Those of others are kept:
// the peer may answer before the completion of a SEND is there.
func (a *App) complete(want verbs.Op, n int) (c verbs.Completion, err error) {
	for i := 0; i < n; {
		if early := a.early[want]; len(early) > 0 {
			c, a.early[want] = early[0], early[1:]
			i++
			continue
		}
		if c, err = a.poll(); err != nil {
			return c, fmt.Errorf("operation %d, completion %d of %d: %w", want, i+1, n, err)
		}
		a.early[c.Op] = append(a.early[c.Op], c)
	}
	return c, nil
}
