// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"encoding/binary"
	"fmt"
)

// HeaderLen and EntryLen are lengths in bytes. HeaderLen is that of the shortest message.
const (
	HeaderLen = 8
	EntryLen  = 24
)

// MaxEntries is how many entries a Lease has at most, and MaxReturn how many slabs a Return.
const (
	MaxEntries = (MaxMessage - HeaderLen - 12) / EntryLen
	MaxReturn  = (MaxMessage - HeaderLen - 8) / 4
)

// maxText is how many bytes of text a message has.
const maxText = MaxMessage - HeaderLen - 8

// Message is a message after the connection is made. *Begin, *Report, *Return and *Leave are those of a node; *Welcome,
// *Refusal, *Ask, *Lease and *Text are those of a server.
type Message interface {
	kind() Kind
	appendBody(b []byte) []byte
	parseBody(b []byte) bool // false: the length does not fit
}

// Ask asks the node what it needed in a period.
type Ask struct{ Period uint32 }

// Report is the answer to Ask.
type Report struct {
	Token  uint64
	Period uint32
	Demand uint64 // bytes that the node wanted to keep in the pool, including those that found no room
	Used   uint64 // distinct bytes of the lease that the node accessed
}

// Lease is a part of what a node has from the beginning of a period on. All parts together are the whole
// lease: what they do not name, the node no longer has.
type Lease struct {
	Period      uint32
	Part, Parts uint16 // number of this part, from 0 on, and of all parts; at least 1 part
	Returns     uint32 // Return messages of this connection that the server had received before
	Entries     []Entry
}

// Entry is a slab of a lease.
type Entry struct {
	Slab   uint32
	Return uint32 // time in microseconds within which the slab must be returned; 0: it is leased
	VA     uint64 // address of its first byte
	RKey   uint32
}

// Return gives slabs back. The node does not access them any more.
type Return struct {
	Token uint64
	Slabs []uint32
}

// Leave gives all slabs back.
type Leave struct{ Token uint64 }

// Text is a part of a text in UTF-8, or of an answer in JSON.
type Text struct {
	Part, Parts uint16 // number of this part, from 0 on, and of all parts; at least 1 part
	Text        []byte
}

func (*Ask) kind() Kind    { return KindAsk }
func (*Report) kind() Kind { return KindReport }
func (*Lease) kind() Kind  { return KindLease }
func (*Return) kind() Kind { return KindReturn }
func (*Leave) kind() Kind  { return KindLeave }
func (*Text) kind() Kind   { return KindText }

// Append appends a message: version (8 bits), kind (8), reserved (16), and the body.
func Append(b []byte, m Message) []byte {
	return m.appendBody(append(b, Version, byte(m.kind()), 0, 0))
}

// Parse reads a message. It keeps no part of b.
func Parse(b []byte) (Message, error) {
	if len(b) < HeaderLen || len(b) > MaxMessage || b[0] != Version {
		return nil, fmt.Errorf("%w: %d bytes that begin with %x", ErrFormat, len(b), b[:min(len(b), 4)])
	}
	var m Message
	switch Kind(b[1]) {
	case KindAsk:
		m = &Ask{}
	case KindReport:
		m = &Report{}
	case KindLease:
		m = &Lease{}
	case KindReturn:
		m = &Return{}
	case KindLeave:
		m = &Leave{}
	case KindText:
		m = &Text{}
	case KindBegin:
		m = &Begin{}
	case KindWelcome:
		m = &Welcome{}
	case KindRefusal:
		m = &Refusal{}
	default:
		return nil, fmt.Errorf("%w: kind %d", ErrFormat, b[1])
	}
	if !m.parseBody(b[4:]) {
		return nil, fmt.Errorf("%w: %d bytes of kind %d", ErrFormat, len(b), b[1])
	}
	return m, nil
}

func (a *Ask) appendBody(b []byte) []byte { return binary.BigEndian.AppendUint32(b, a.Period) }

func (a *Ask) parseBody(b []byte) bool {
	a.Period = binary.BigEndian.Uint32(b)
	return len(b) == 4
}

func (r *Report) appendBody(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, r.Token)
	b = binary.BigEndian.AppendUint32(b, r.Period)
	b = binary.BigEndian.AppendUint64(b, r.Demand)
	return binary.BigEndian.AppendUint64(b, r.Used)
}

func (r *Report) parseBody(b []byte) bool {
	if len(b) != 28 {
		return false
	}
	r.Token, r.Period = binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:])
	r.Demand, r.Used = binary.BigEndian.Uint64(b[12:]), binary.BigEndian.Uint64(b[20:])
	return true
}

func (l *Lease) appendBody(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, l.Period)
	b = appendPart(b, l.Part, l.Parts)
	b = binary.BigEndian.AppendUint32(b, l.Returns)
	b = binary.BigEndian.AppendUint32(b, uint32(len(l.Entries)))
	for _, e := range l.Entries {
		b = binary.BigEndian.AppendUint32(b, e.Slab)
		b = binary.BigEndian.AppendUint32(b, e.Return)
		b = binary.BigEndian.AppendUint64(b, e.VA)
		b = binary.BigEndian.AppendUint32(b, e.RKey)
		b = append(b, 0, 0, 0, 0)
	}
	return b
}

func (l *Lease) parseBody(b []byte) (ok bool) {
	if len(b) < 16 {
		return false
	}
	l.Period, l.Returns = binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[8:])
	if l.Part, l.Parts, ok = parsePart(b[4:]); !ok {
		return false
	}
	n := binary.BigEndian.Uint32(b[12:])
	if b = b[16:]; uint64(len(b)) != uint64(n)*EntryLen {
		return false
	}
	for ; len(b) > 0; b = b[EntryLen:] {
		l.Entries = append(l.Entries, Entry{
			Slab: binary.BigEndian.Uint32(b), Return: binary.BigEndian.Uint32(b[4:]), VA: binary.BigEndian.Uint64(b[8:]), RKey: binary.BigEndian.Uint32(b[16:]),
		})
	}
	return true
}

func (r *Return) appendBody(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, r.Token)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Slabs)))
	for _, s := range r.Slabs {
		b = binary.BigEndian.AppendUint32(b, s)
	}
	return b
}

func (r *Return) parseBody(b []byte) bool {
	if len(b) < 12 {
		return false
	}
	r.Token = binary.BigEndian.Uint64(b)
	n := binary.BigEndian.Uint32(b[8:])
	if b = b[12:]; uint64(len(b)) != uint64(n)*4 {
		return false
	}
	for ; len(b) > 0; b = b[4:] {
		r.Slabs = append(r.Slabs, binary.BigEndian.Uint32(b))
	}
	return true
}

func (l *Leave) appendBody(b []byte) []byte { return binary.BigEndian.AppendUint64(b, l.Token) }

func (l *Leave) parseBody(b []byte) bool {
	if len(b) != 8 {
		return false
	}
	l.Token = binary.BigEndian.Uint64(b)
	return true
}

func (t *Text) appendBody(b []byte) []byte { return append(appendPart(b, t.Part, t.Parts), t.Text...) }

func (t *Text) parseBody(b []byte) (ok bool) {
	t.Part, t.Parts, ok = parsePart(b)
	t.Text = append([]byte{}, b[4:]...)
	return ok
}

func appendPart(b []byte, part, parts uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, part), parts)
}

func parsePart(b []byte) (part, parts uint16, ok bool) {
	part, parts = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	return part, parts, part < parts
}
