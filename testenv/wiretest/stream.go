// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Stream is a scenario of one kind of bulk operation from node A, on a path like
// that of a data center: 10 Gbit/s, 100 µs round trip.
type Stream struct {
	Kind      verbs.Op
	Pairs     int
	Messages  int // messages of each pair
	Len       int // bytes of a message
	PMTU      rocev2.PMTU
	Selective bool
	Queue     int     // messages outstanding
	Every     qp.Time // time between two posts of one pair, 0: as fast as they complete
	Timeout   uint8
	RetryCnt  uint8
	Rate      int64
	Delay     qp.Time // delay of the path, one way
}

// Build makes the world of the stream; seed is that of its faults.
func (st Stream) Build(seed uint64) *World { return st.build(func(s *Scenario) { s.Seed = seed }) }

// build lets change have the last word.
func (st Stream) build(change func(*Scenario)) *World {
	s := &Scenario{
		Rate: orDefault(st.Rate, 10e9), Delay: orDefault(st.Delay, 50*Microsecond),
		Settings: Settings{
			Type: verbs.RC, PMTU: st.PMTU, Selective: st.Selective, RdAtomic: 16,
			Timeout: st.Timeout, RetryCnt: st.RetryCnt, RNRRetry: 7, MinRNRTimer: 1,
			MaxSend: st.Queue, Receives: 64, Hold: 1024,
		},
	}
	s.Start = [2]uint32{1<<24 - 1000, 5000}
	for range max(st.Pairs, 1) {
		var ops [2][]Op
		for i := range st.Messages {
			ops[0] = append(ops[0], Op{
				Kind: st.Kind, Len: st.Len, Cuts: 1, Source: i * 4099, Remote: i * 1031,
				Flags: verbs.Signaled, Delay: st.Every,
			})
		}
		s.Ops = append(s.Ops, ops)
	}
	change(s)
	return Build(s)
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Load counts the data packets of a path in slices of time.
type Load struct {
	Every   qp.Time
	Packets []int
	Data    int
}

// Watch has the path's data packets counted: requests or READ responses.
func (p *Path) Watch(every qp.Time) *Load {
	l := &Load{Every: every}
	p.Tap = func(pkt *rocev2.Packet) {
		info := pkt.Opcode().Info()
		if !info.Request && info.Operation != rocev2.OperationReadResponse {
			return
		}
		i := int(p.w.now / every)
		for len(l.Packets) <= i {
			l.Packets = append(l.Packets, 0)
		}
		l.Packets[i]++
		l.Data++
	}
	return l
}

// Most is the largest count among the slices that begin in [from, to).
func (l *Load) Most(from, to qp.Time) (most int) {
	for i, n := range l.Packets {
		if at := qp.Time(i) * l.Every; at >= from && at < to {
			most = max(most, n)
		}
	}
	return most
}

// Sum is the number of packets in the slices that begin in [from, to).
func (l *Load) Sum(from, to qp.Time) (sum int) {
	for i, n := range l.Packets {
		if at := qp.Time(i) * l.Every; at >= from && at < to {
			sum += n
		}
	}
	return sum
}
