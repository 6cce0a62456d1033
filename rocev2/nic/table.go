// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"

	"github.com/softroce/softroce-xdp/rocev2"
)

// Numbers of queue pairs: the top bit is set, then come 7 bits that change each time
// a place is used again, so that late packets of a queue pair that is gone find
// none, then the place, which makes the look-up an index.
//
//	1(1)  generation(7)  place(16)
//
// rxe numbers its queue pairs from 16 to 0x20000 (RXE_MAX_QP_INDEX). So both may work
// on one interface, and two engines know each other by their numbers: only those
// use SACK (docs/wire-format.md).
const (
	engineQPN = 0x800000
	placeBits = 16
	genMask   = 0x7F
	maxPlaces = 1 << placeBits
)

// EngineQPN reports whether a queue pair number is one that an engine gives.
func EngineQPN(qpn uint32) bool {
	return qpn&engineQPN != 0 && qpn < rocev2.ControlQPN
}

// ErrTooMany says that there is no room for another one.
var ErrTooMany = errors.New("too many")

// qpTable finds queue pairs by number. It belongs to the engine's thread.
type qpTable struct {
	places []*QP
	gens   []uint8
	free   []uint32
	count  int
}

// add numbers a queue pair; numbers that are free again are used as late as
// possible.
func (t *qpTable) add(x *QP) (uint32, error) {
	place := uint32(len(t.places))
	switch {
	case len(t.free) > 0 && (len(t.free) >= 1024 || place == maxPlaces):
		place = t.free[0]
		t.free = t.free[1:]
		t.gens[place] = (t.gens[place] + 1) & genMask
	case place == maxPlaces:
		return 0, ErrTooMany
	default:
		t.places, t.gens = append(t.places, nil), append(t.gens, 0)
	}
	qpn := engineQPN | uint32(t.gens[place])<<placeBits | place
	if qpn >= rocev2.ControlQPN { // 0xFFFFFE and the multicast number
		t.gens[place] = 0
		qpn = engineQPN | place
	}
	t.places[place] = x
	t.count++
	return qpn, nil
}

func (t *qpTable) remove(qpn uint32) {
	place := qpn & (maxPlaces - 1)
	if int(place) < len(t.places) && t.places[place] != nil && t.places[place].num == qpn {
		t.places[place] = nil
		t.free = append(t.free, place)
		t.count--
	}
}

// get returns the queue pair with this number, or nil.
func (t *qpTable) get(qpn uint32) *QP {
	place := qpn & (maxPlaces - 1)
	if int(place) >= len(t.places) {
		return nil
	}
	if x := t.places[place]; x != nil && x.num == qpn {
		return x
	}
	return nil
}

// prefetch has the queue pair at the place of this number loaded, if there is one.
func (t *qpTable) prefetch(qpn uint32) {
	if place := qpn & (maxPlaces - 1); int(place) < len(t.places) && t.places[place] != nil {
		prefetch(t.places[place])
	}
}

// all calls f for every queue pair.
func (t *qpTable) all(f func(*QP)) {
	for _, x := range t.places {
		if x != nil {
			f(x)
		}
	}
}
