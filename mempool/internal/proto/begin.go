// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"encoding/binary"
	"time"
)

// Begin is the first message of a peer. The server does what the Request asks for when it has received it.
type Begin struct {
	Token     uint64 // KindRemove: of the node to remove; otherwise 0, or as in the Request
	Challenge uint64 // challenge of the Offer
}

// Welcome is the answer to the Begin of KindJoin.
type Welcome struct {
	Token      uint64        // token of the node: for all its messages, and for a Request that resumes the lease
	Generation uint64        // generation of the data: another one means that all data is lost
	SlabBytes  uint64        // length of a slab
	Slabs      uint32        // slabs of the pool
	Resumed    bool          // the node has the slabs that it had
	Grace      time.Duration // time that the node has to return slabs
	Hold       time.Duration // time that the lease is kept after the connection has ended
}

// Refusal says why the server does not do what the Request asks for. The connection ends.
type Refusal struct {
	Text []byte // UTF-8
}

func (*Begin) kind() Kind   { return KindBegin }
func (*Welcome) kind() Kind { return KindWelcome }
func (*Refusal) kind() Kind { return KindRefusal }

func (m *Begin) appendBody(b []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, m.Token), m.Challenge)
}

func (m *Begin) parseBody(b []byte) bool {
	if len(b) != 16 {
		return false
	}
	m.Token, m.Challenge = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	return true
}

func (w *Welcome) appendBody(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, w.Token)
	b = binary.BigEndian.AppendUint64(b, w.Generation)
	b = binary.BigEndian.AppendUint64(b, w.SlabBytes)
	b = binary.BigEndian.AppendUint32(b, w.Slabs)
	flags := uint32(0)
	if w.Resumed {
		flags = 1
	}
	b = binary.BigEndian.AppendUint32(b, flags)
	b = binary.BigEndian.AppendUint64(b, uint64(w.Grace))
	return binary.BigEndian.AppendUint64(b, uint64(w.Hold))
}

func (w *Welcome) parseBody(b []byte) bool {
	if len(b) != 48 {
		return false
	}
	*w = Welcome{
		Token: binary.BigEndian.Uint64(b), Generation: binary.BigEndian.Uint64(b[8:]), SlabBytes: binary.BigEndian.Uint64(b[16:]),
		Slabs: binary.BigEndian.Uint32(b[24:]), Resumed: b[31]&1 != 0,
		Grace: time.Duration(binary.BigEndian.Uint64(b[32:])), Hold: time.Duration(binary.BigEndian.Uint64(b[40:])),
	}
	return w.SlabBytes > 0 && w.SlabBytes < 1<<32 && w.Grace >= 0 && w.Hold >= 0
}

// The text is preceded by 4 reserved bytes.
func (r *Refusal) appendBody(b []byte) []byte { return append(append(b, 0, 0, 0, 0), r.Text...) }

func (r *Refusal) parseBody(b []byte) bool {
	r.Text = append([]byte{}, b[4:]...)
	return true
}
