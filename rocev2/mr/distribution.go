// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"errors"
	"fmt"
	"math"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// MaxDestinations is the largest number of destinations of a group: the ports of the card
// (S2.1).
const MaxDestinations = 4

// DistributionDepth is how many messages of one distribution may have no report yet.
// An origin that has more of them outstanding loses messages (Distribution.Refused).
const DistributionDepth = 256

// Destination is one member of a Group. Address and port are those of its queue pair.
type Destination struct {
	QPN  uint32 // own queue pair, RC, that is connected to the destination
	VA   uint64 // address of the region there: data goes to the offset that it has in the own region
	RKey uint32 // R_Key of the region at the destination
}

// Group is a list of destinations that get the same data (S2.7).
type Group []Destination

// Check reports what is wrong with a group for a region of length bytes.
func (g Group) Check(length uint64) error {
	if len(g) == 0 || len(g) > MaxDestinations {
		return fmt.Errorf("mr: a distribution group of %d destinations: give 1 to %d", len(g), MaxDestinations)
	}
	for i, d := range g {
		if length > 0 && length-1 > math.MaxUint64-d.VA {
			return fmt.Errorf("mr: destination %d of the group: %w: %d bytes at %#x go beyond the last address", i, verbs.ErrRange, length, d.VA)
		}
		for _, other := range g[:i] {
			if other.QPN == d.QPN {
				return fmt.Errorf("mr: destination %d of the group: queue pair %d has another destination already: use one queue pair for each", i, d.QPN)
			}
		}
	}
	return nil
}

// Distribution forwards the WRITEs that arrive in one region to the destinations of a group
// (S2.7). Data leaves from the memory of the region, so it passes no other memory. It is a
// state machine: its owner calls Arrived from Spec.Arrived, then Post, passes
// completions to Complete, and sends the reports that NextReport returns. All calls must be
// made by one goroutine.
//
// Each destination has its own place in the list of messages: one that takes nothing delays no
// other. The origin's WRITE was acknowledged when its data was placed, so the origin must
// not write to the same bytes again before their report.
type Distribution struct {
	group    Group
	base     uint64 // address of the region
	lkey     uint32
	messages [DistributionDepth]forwarded
	oldest   uint32                  // number of the oldest message without a report
	end      uint32                  // number of the next message
	next     [MaxDestinations]uint32 // number of the next message for each destination
	refused  uint64
}

// forwarded is one message.
type forwarded struct {
	arrival mem.Arrival
	offset  uint64
	open    uint8 // bit i: destination i has no status yet
	status  [MaxDestinations]verbs.Status
}

// NewDistribution returns the distribution of a region: base is its address, length its
// bytes and lkey its key for work requests.
func NewDistribution(g Group, base, length uint64, lkey uint32) (*Distribution, error) {
	if err := g.Check(length); err != nil {
		return nil, err
	}
	return &Distribution{group: append(Group(nil), g...), base: base, lkey: lkey}, nil
}

// Arrived takes a message that arrived at an offset of the region. It reports false, and
// forwards nothing, if 256 messages have no report yet.
func (d *Distribution) Arrived(a mem.Arrival, offset uint64) bool {
	if d.end-d.oldest == DistributionDepth {
		d.refused++
		return false
	}
	d.messages[d.end%DistributionDepth] = forwarded{arrival: a, offset: offset, open: 1<<len(d.group) - 1}
	d.end++
	return true
}

// Refused is the number of messages that were not forwarded, because the origin had too many
// outstanding.
func (d *Distribution) Refused() uint64 { return d.refused }

// Idle reports whether every message has its report.
func (d *Distribution) Idle() bool { return d.oldest == d.end }

// idBits are the bits of a work request ID that a Distribution uses: the number of the
// message, and below it the destination.
const (
	destBits = 2
	idBits   = 32 + destBits
)

// WRIDMask has the bits of SendWR.ID that a Distribution uses. The owner may use the others.
const WRIDMask = 1<<idBits - 1

// Post calls post with the work requests that each destination has not got yet. A destination
// whose post returns verbs.ErrQueueFull is tried again with the next call. After any other
// error the message has failed for that destination. wr is valid during the call.
func (d *Distribution) Post(post func(to Destination, wr *verbs.SendWR) error) {
	for i, to := range d.group {
		for ; d.next[i] != d.end; d.next[i]++ {
			m := &d.messages[d.next[i]%DistributionDepth]
			wr := d.workRequest(i, m)
			err := post(to, &wr)
			if errors.Is(err, verbs.ErrQueueFull) {
				break
			}
			if err != nil {
				m.end(i, verbs.StatusLocalQPOperation)
			}
		}
	}
}

// workRequest is the WRITE of a message to destination i.
func (d *Distribution) workRequest(i int, m *forwarded) verbs.SendWR {
	wr := verbs.SendWR{
		ID: uint64(d.next[i])<<destBits | uint64(i), Op: verbs.OpWrite, Flags: verbs.Signaled,
		SGL:        []verbs.SGE{{Addr: d.base + m.offset, Len: m.arrival.Len, LKey: d.lkey}},
		RemoteAddr: d.group[i].VA + m.offset, RKey: d.group[i].RKey,
	}
	if m.arrival.HasImm {
		wr.Op, wr.Imm = verbs.OpWriteImm, m.arrival.Imm
	}
	return wr
}

// Complete takes the status of a work request. IDs of no outstanding one are ignored.
func (d *Distribution) Complete(id uint64, status verbs.Status) {
	i, number := int(id&(1<<destBits-1)), uint32(id>>destBits)
	if i < len(d.group) && number-d.oldest < d.next[i]-d.oldest {
		d.messages[number%DistributionDepth].end(i, status)
	}
}

// end sets the status of destination i.
func (m *forwarded) end(i int, status verbs.Status) {
	if m.open&(1<<i) != 0 {
		m.open &^= 1 << i
		m.status[i] = status
	}
}

// NextReport returns the report of the oldest message if all destinations have their status.
// Reports are in the order in which the messages arrived.
func (d *Distribution) NextReport() (r Report, ok bool) {
	m := &d.messages[d.oldest%DistributionDepth]
	if d.Idle() || m.open != 0 {
		return Report{}, false
	}
	r = Report{
		QPN: m.arrival.QPN, Message: d.oldest, VA: m.arrival.Addr, Length: m.arrival.Len,
		Destinations: uint8(len(d.group)), Status: m.status,
	}
	d.oldest++
	return r, true
}
