// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The calls of cm.Session, and its events. A process has one session at a time.
const (
	TCMOpen Type = TCM + iota
	TCMClose
	TCMListen
	TCMUnlisten
	TCMConnect
	TCMAccept
	TCMReady
	TCMReject
	TCMDisconnect
	TCMArrived
	TCMResolve
	TCMAnswer

	// TCMEvent is an event of the session, a message of the server.
	TCMEvent Type = TCM + 0x80
)

// CMPrivateBytes is the room for private data: more than any message of the communication manager
// has.
const CMPrivateBytes = 256

// CMPrivate is private data. Len is the number of bytes.
type CMPrivate struct {
	Len   uint32
	Bytes [CMPrivateBytes]byte
}

// CMPrivateOf returns private data as messages have it.
func CMPrivateOf(b []byte) (p CMPrivate, err error) {
	if len(b) > len(p.Bytes) {
		return p, fmt.Errorf("cm: %d bytes of private data: %w", len(b), mad.ErrPrivate)
	}
	p.Len = uint32(copy(p.Bytes[:], b))
	return p, nil
}

// Data is the inverse of CMPrivateOf.
func (p *CMPrivate) Data() ([]byte, error) {
	if p.Len > CMPrivateBytes {
		return nil, fmt.Errorf("%w: private data of %d bytes", ErrProtocol, p.Len)
	}
	return append([]byte(nil), p.Bytes[:p.Len]...), nil
}

// CMEndpoint is verbs.Endpoint.
type CMEndpoint struct {
	Addr              Addr
	QPN, PSN, QKey, _ uint32
}

// CMPath is cm.Path.
type CMPath struct {
	Type          uint8
	_             [7]byte
	Local, Remote CMEndpoint
	Attr          Attr
}

// CMListen begins to listen at a service ID.
type CMListen struct {
	Service uint64
	Backlog int32
	_       uint32
}

// CMUnlisten ends it.
type CMUnlisten struct{ Service uint64 }

// CMConnect is cm.ConnectParams. The reply is a Handle with the ID.
type CMConnect struct {
	Service     uint64
	Local, Peer Addr
	SrcPort     uint16
	Type, SRQ   uint8
	QPN, PSN    uint32
	Attr        Attr
	Private     CMPrivate
}

// CMResolve is cm.ResolveParams. The reply is a Handle with the ID.
type CMResolve struct {
	Service     uint64
	Local, Peer Addr
	SrcPort, _  uint16
	Private     CMPrivate
}

// CMAccept accepts a request.
type CMAccept struct {
	ID      uint32
	Path    CMPath
	Private CMPrivate
}

// CMCall is Ready, Reject or Disconnect.
type CMCall struct {
	ID      uint32
	Private CMPrivate
}

// CMAnswer answers a resolution.
type CMAnswer struct {
	ID, QPN, QKey uint32
	Private       CMPrivate
}

// CMEvent is cm.Event. Status is that of its error. With StatusRejected and StatusUnresolved, Reason,
// Info and ErrPrivate are the fields of the error. The text of the error follows the structure.
type CMEvent struct {
	ID               uint32
	Kind, _          uint8
	SrcPort          uint16
	Service          uint64
	Path             CMPath
	Status           Status
	Reason           uint16
	Private          CMPrivate
	Info, ErrPrivate CMPrivate
}

// CMPathOf returns a path as messages have it.
func CMPathOf(p cm.Path) CMPath {
	return CMPath{Type: uint8(p.Type), Local: cmEndpointOf(p.Local), Remote: cmEndpointOf(p.Remote), Attr: AttrOf(p.Attr)}
}

// CM is the inverse of CMPathOf.
func (p *CMPath) CM() cm.Path {
	return cm.Path{Type: verbs.QPType(p.Type), Local: p.Local.verbs(), Remote: p.Remote.verbs(), Attr: p.Attr.Verbs()}
}

func cmEndpointOf(e verbs.Endpoint) CMEndpoint {
	return CMEndpoint{Addr: AddrOf(e.Addr), QPN: e.QPN, PSN: uint32(e.PSN), QKey: e.QKey}
}

func (e *CMEndpoint) verbs() verbs.Endpoint {
	return verbs.Endpoint{Addr: e.Addr.IP(), QPN: e.QPN, PSN: rocev2.PSN(e.PSN), QKey: e.QKey}
}

// CMConnectOf returns the parameters of a connection as messages have them.
func CMConnectOf(p cm.ConnectParams) (*CMConnect, error) {
	private, err := CMPrivateOf(p.Private)
	return &CMConnect{
		Service: uint64(p.Service), Local: AddrOf(p.Local), Peer: AddrOf(p.Peer), SrcPort: p.SrcPort, Type: uint8(p.Type), SRQ: flag(p.SRQ),
		QPN: p.QPN, PSN: uint32(p.PSN), Attr: AttrOf(p.Attr), Private: private,
	}, err
}

// CM is the inverse of CMConnectOf.
func (m *CMConnect) CM() (cm.ConnectParams, error) {
	private, err := m.Private.Data()
	return cm.ConnectParams{
		Service: mad.ServiceID(m.Service), Local: m.Local.IP(), Peer: m.Peer.IP(), SrcPort: m.SrcPort, Type: verbs.QPType(m.Type),
		SRQ: m.SRQ != 0, QPN: m.QPN, PSN: rocev2.PSN(m.PSN), Attr: m.Attr.Verbs(), Private: private,
	}, err
}

// AppendCMEvent appends the message of an event.
func AppendCMEvent(b []byte, e cm.Event) []byte {
	m := CMEvent{
		ID: uint32(e.ID), Kind: uint8(e.Kind), SrcPort: e.SrcPort, Service: uint64(e.Service), Path: CMPathOf(e.Path),
	}
	m.Private, _ = CMPrivateOf(e.Private) // of a message, which has no more
	text := ""
	if e.Err != nil {
		m.Status, text = StatusOf(e.Err), e.Err.Error()
		var rejected *cm.RejectedError
		var unresolved *cm.UnresolvedError
		switch {
		case errors.As(e.Err, &rejected):
			m.Status, m.Reason = StatusRejected, uint16(rejected.Reason)
			m.Info, _ = CMPrivateOf(rejected.Info)
			m.ErrPrivate, _ = CMPrivateOf(rejected.Private)
		case errors.As(e.Err, &unresolved):
			m.Status, m.Reason = StatusUnresolved, uint16(unresolved.Status)
			m.ErrPrivate, _ = CMPrivateOf(unresolved.Private)
		}
	}
	return append(Append(b, Header{Type: TCMEvent}, &m), text[:min(len(text), MaxText)]...)
}

// DecodeCMEvent reads an event.
func DecodeCMEvent(b []byte) (cm.Event, error) {
	var m CMEvent
	n := binary.Size(&m)
	if len(b) < n {
		return cm.Event{}, fmt.Errorf("%w: an event of %d bytes", ErrProtocol, len(b))
	}
	err := Decode(b[:n], &m)
	private, err1 := m.Private.Data()
	info, err2 := m.Info.Data()
	errPrivate, err3 := m.ErrPrivate.Data()
	if err := errors.Join(err, err1, err2, err3); err != nil {
		return cm.Event{}, err
	}
	e := cm.Event{
		ID: cm.ID(m.ID), Kind: cm.Kind(m.Kind), SrcPort: m.SrcPort, Service: mad.ServiceID(m.Service), Path: m.Path.CM(), Private: private,
	}
	switch m.Status {
	case StatusOK:
	case StatusRejected:
		e.Err = &cm.RejectedError{Reason: mad.Reason(m.Reason), Info: info, Private: errPrivate}
	case StatusUnresolved:
		e.Err = &cm.UnresolvedError{Status: mad.SIDRStatus(m.Reason), Private: errPrivate}
	default:
		e.Err = &Error{Status: m.Status, Text: string(b[n:])}
	}
	return e, nil
}

// cmBodies is Bodies for the calls of the communication manager.
func cmBodies(t Type) (request, reply any, ok bool) {
	switch t {
	case TCMOpen, TCMClose:
		return nil, nil, true
	case TCMListen:
		return new(CMListen), nil, true
	case TCMUnlisten:
		return new(CMUnlisten), nil, true
	case TCMConnect:
		return new(CMConnect), new(Handle), true
	case TCMAccept:
		return new(CMAccept), nil, true
	case TCMReady, TCMReject, TCMDisconnect:
		return new(CMCall), nil, true
	case TCMArrived:
		return new(Handle), nil, true
	case TCMResolve:
		return new(CMResolve), new(Handle), true
	case TCMAnswer:
		return new(CMAnswer), nil, true
	}
	return nil, nil, false
}
