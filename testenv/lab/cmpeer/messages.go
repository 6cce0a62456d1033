// SPDX-License-Identifier: Apache-2.0

package cmpeer

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// What ucmatose and udaddy exchange by default: 10 messages of 100 bytes in each direction, the
// server of ucmatose and the client of udaddy first. rdma_client and rdma_server send one of 16
// bytes each, the client first.
const (
	Messages    = 10
	MessageLen  = 100
	SampleBytes = 16

	sendAt = bufSize / 2
	udQKey = 0x01234567 // of librdmacm in the port space UDP
)

// PostRecvs posts receives for n messages of size bytes each. It is called before the connection.
func (a *App) PostRecvs(n, size int) error {
	if a.QP.Type() == verbs.UD {
		size += verbs.GRHLen
	}
	for i := range n {
		if err := a.recv(i*size, size); err != nil {
			return err
		}
	}
	return nil
}

// Send sends n messages of size bytes.
func (a *App) Send(n, size int) error {
	for i := range n {
		fill(a.buf[sendAt+i*size:][:size], i)
		if err := a.QP.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: a.sge(sendAt+i*size, size)}); err != nil {
			return err
		}
	}
	_, err := a.complete(verbs.OpSend, n)
	return err
}

// Recv waits for n messages of size bytes. With filled, they are those of Send.
func (a *App) Recv(n, size int, filled bool) error {
	for i := range n {
		c, err := a.complete(verbs.OpRecv, 1)
		if err != nil {
			return err
		}
		if int(c.Bytes) != size {
			return fmt.Errorf("message %d has %d bytes, want %d", i, c.Bytes, size)
		}
		want := make([]byte, size)
		if fill(want, i); filled && !bytes.Equal(a.buf[i*size:][:size], want) {
			return fmt.Errorf("message %d is not what was sent", i)
		}
	}
	return nil
}

func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*3 + seed)
	}
}

// ServeUD is the server of udaddy: it answers a resolution with its queue pair, receives the
// messages, and sends as many back to the queue pair that they came from.
func (a *App) ServeUD() error {
	req, err := a.Await(cm.ResolveRequest)
	if err != nil {
		return err
	}
	to := req.Path.Remote.Addr
	attr := verbs.DefaultAttr()
	if err := verbs.Connect(a.QP, verbs.Endpoint{QKey: udQKey}, verbs.Endpoint{}, attr); err != nil {
		return err
	}
	if err := a.Session.Answer(req.ID, a.QP.QPN(), udQKey, nil); err != nil {
		return err
	}
	c, err := a.complete(verbs.OpRecv, Messages)
	if err != nil {
		return err
	}
	return a.sendUD(req.Path.Local.Addr, to, c.SrcQP)
}

// CallUD is the client of udaddy: it resolves a port of the port space UDP, sends the messages, and
// receives as many.
func (a *App) CallUD(local, peer netip.Addr, port uint16) error {
	_, err := a.Session.Resolve(cm.ResolveParams{Local: local, Peer: peer, Service: mad.IPServiceID(mad.PortUDP, port), SrcPort: 40000})
	if err != nil {
		return err
	}
	e, err := a.Await(cm.Resolved)
	if err != nil {
		return err
	}
	if _, err := a.Await(cm.Gone); err != nil {
		return err
	}
	if err := verbs.Connect(a.QP, verbs.Endpoint{QKey: udQKey}, verbs.Endpoint{}, verbs.DefaultAttr()); err != nil {
		return err
	}
	if e.Path.Remote.QKey != udQKey {
		return fmt.Errorf("the peer's Q_Key is %#x, want %#x", e.Path.Remote.QKey, udQKey)
	}
	if err := a.sendUD(local, peer, e.Path.Remote.QPN); err != nil {
		return err
	}
	c, err := a.complete(verbs.OpRecv, Messages)
	if err == nil && int(c.Bytes) != verbs.GRHLen+MessageLen {
		err = fmt.Errorf("a message has %d bytes", c.Bytes)
	}
	return err
}

func (a *App) sendUD(local, peer netip.Addr, qpn uint32) error {
	ah, err := a.pd.CreateAH(verbs.AddressVector{Src: local, Dst: peer})
	if err != nil {
		return err
	}
	defer func() { _ = ah.Destroy() }()
	for range Messages {
		// udaddy answers to the queue pair that the immediate data names.
		err := a.QP.PostSend(&verbs.SendWR{
			Op: verbs.OpSendImm, Flags: verbs.Signaled, SGL: a.sge(sendAt, MessageLen), Imm: a.QP.QPN(),
			AH: ah, RemoteQPN: qpn, RemoteQKey: udQKey,
		})
		if err != nil {
			return err
		}
	}
	_, err = a.complete(verbs.OpSendImm, Messages)
	return err
}
