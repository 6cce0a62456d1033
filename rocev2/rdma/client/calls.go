// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// calls are requests whose replies have not arrived.
type calls struct {
	mu      sync.Mutex
	seq     uint32
	waiting map[uint32]chan answer
}

// answer is a reply.
type answer struct {
	status proto.Status
	body   []byte
	fds    []int
}

// call sends a request and waits for the reply, which it reads into reply. The descriptors are the
// caller's.
func (d *Device) call(t proto.Type, request, reply any) ([]int, error) {
	return d.callWith(t, request, reply)
}

// callWith is call with descriptors for the server. While the server executes as many calls that wait
// as it takes, another one waits here.
func (d *Device) callWith(t proto.Type, request, reply any, fds ...int) ([]int, error) {
	a, err := d.exchange(proto.Waits(t, request), func(seq uint32) []byte {
		return proto.Append(nil, proto.Header{Type: t, Seq: seq}, request)
	}, fds...)
	if err != nil {
		return nil, err
	}
	return a.fds, decode(t, &a, reply)
}

// exchange sends the request that message returns for a sequence number, and waits for the reply. waits: it is one
// of the calls that wait.
func (d *Device) exchange(waits bool, message func(seq uint32) []byte, fds ...int) (a answer, err error) {
	if err := d.alive(); err != nil {
		return a, err
	}
	if waits {
		select {
		case d.slots <- struct{}{}:
			defer func() { <-d.slots }()
		case <-d.dead:
			return a, d.alive()
		}
	}
	got := make(chan answer, 1)
	d.calls.mu.Lock()
	for d.calls.seq++; d.calls.seq == 0 || d.calls.waiting[d.calls.seq] != nil; d.calls.seq++ {
	}
	seq := d.calls.seq
	d.calls.waiting[seq] = got
	d.calls.mu.Unlock()
	defer func() {
		d.calls.mu.Lock()
		delete(d.calls.waiting, seq)
		d.calls.mu.Unlock()
	}()
	// After EPIPE, the server's last message still waits for read, which fails the device.
	if err := proto.Write(d.conn, message(seq), fds...); err != nil && !errors.Is(err, unix.EPIPE) {
		d.fail(d.ended(err))
	}
	select {
	case a = <-got:
		return a, nil
	case <-d.dead:
		select {
		case a = <-got: // a reply that refuses may be the server's last message
			return a, nil
		default:
		}
		return a, d.alive()
	}
}

func decode(t proto.Type, a *answer, reply any) error {
	var err error
	if a.status != proto.StatusOK {
		err = &proto.Error{Status: a.status, Text: string(a.body)}
	} else if err = proto.Decode(a.body, reply); err != nil {
		err = fmt.Errorf("the reply to message %d: %w", t, err)
	}
	if err != nil {
		proto.CloseFDs(a.fds)
		a.fds = nil
	}
	return err
}

// plain is call without descriptors in the reply.
func (d *Device) plain(t proto.Type, request, reply any) error {
	fds, err := d.call(t, request, reply)
	proto.CloseFDs(fds)
	return err
}

// end sends a request that destroys an object. The handle is one that the server has given, so if the server does not
// know it, the object was destroyed before: the error wraps ErrDestroyed.
func (d *Device) end(t proto.Type, handle uint32) error {
	err := d.plain(t, &proto.Handle{Handle: handle}, nil)
	if errors.Is(err, proto.ErrHandle) {
		return fmt.Errorf("the object %w: %w", verbs.ErrDestroyed, err)
	}
	return err
}

// mapReply is call for a reply with one descriptor, of a file with n bytes of rings at an offset. Both are
// in the reply.
func (d *Device) mapReply(t proto.Type, request, reply any, place func() (offset uint32, n int)) ([]byte, error) {
	fds, err := d.call(t, request, reply)
	if err != nil {
		return nil, err
	}
	defer proto.CloseFDs(fds)
	if err = wantFDs(fds, 1); err == nil {
		var b []byte
		offset, n := place()
		if b, err = mapShared(fds[0], int64(offset), n); err == nil {
			return b, nil
		}
	}
	return nil, errors.Join(err, d.undo(reply))
}

// wantFDs returns an error if there are not n descriptors of rings.
func wantFDs(fds []int, n int) error {
	if len(fds) == n {
		return nil
	}
	return fmt.Errorf("%w: %d descriptors of rings in a reply, not %d; RLIMIT_NOFILE may be too low", proto.ErrProtocol, len(fds), n)
}

// undo destroys the object that the server has made with a reply.
func (d *Device) undo(reply any) error {
	switch r := reply.(type) {
	case *proto.CreateCQReply:
		return d.end(proto.TDestroyCQ, r.Handle)
	case *proto.CreateSRQReply:
		return d.end(proto.TDestroySRQ, r.Handle)
	case *proto.CreateQPReply:
		return d.end(proto.TDestroyQP, r.Handle)
	case *proto.RegReply:
		return d.end(proto.TDeregMR, r.Handle)
	}
	return nil
}

// ended is the error of all calls after the end of the connection.
func (d *Device) ended(why error) error {
	return fmt.Errorf("%w: the device server of %s has ended (%w): open the device again", verbs.ErrGone, d.name, why)
}

// read receives the server's messages until the connection ends.
func (d *Device) read() {
	buf := make([]byte, proto.MaxMessage)
	for {
		n, fds, err := proto.Read(d.conn, buf)
		if err != nil && !errors.Is(err, proto.ErrDescriptors) { // whose call fails, and no other
			if errors.Is(err, io.EOF) {
				err = errors.New("the connection was closed")
			}
			d.fail(d.ended(err))
			return
		}
		h, body, err := proto.Split(buf[:n])
		if err == nil && h.Type == proto.TEvent {
			d.onEvent(body)
			proto.CloseFDs(fds)
			continue
		}
		if err == nil && h.Type == proto.TCMEvent {
			d.cm.event(body)
			proto.CloseFDs(fds)
			continue
		}
		d.calls.mu.Lock()
		got := d.calls.waiting[h.Seq]
		delete(d.calls.waiting, h.Seq)
		d.calls.mu.Unlock()
		if err != nil || got == nil || h.Type&proto.Reply == 0 {
			proto.CloseFDs(fds)
			continue
		}
		got <- answer{h.Status, append([]byte(nil), body...), fds}
	}
}

// onEvent delivers an event of the server.
func (d *Device) onEvent(body []byte) {
	m, text, err := proto.DecodeEvent(body)
	if err != nil {
		return
	}
	e := verbs.Event{Type: verbs.EventType(m.Type), Addr: m.Addr.IP()}
	d.mu.Lock()
	known := true
	switch {
	case e.Type <= verbs.EventQPLastWQE:
		e.QP, known = find(d.qps, m.Object)
	case e.Type == verbs.EventSRQLimit:
		e.SRQ, known = find(d.srqs, m.Object)
	case e.Type == verbs.EventCQError:
		e.CQ, known = find(d.cqs, m.Object)
	}
	d.mu.Unlock()
	switch {
	case !known: // it was destroyed meanwhile
	case e.Type == verbs.EventDeviceFatal:
		d.fail(fmt.Errorf("%w: the device of %s has ended: %s", verbs.ErrGone, d.name, text))
	default:
		d.event(e)
	}
}

// find returns the object of a handle.
func find[T any](all map[uint32]T, handle uint32) (T, bool) {
	o, ok := all[handle]
	return o, ok
}
