// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Choices is where a scenario gets its random decisions from: n of them, of which 0
// is the simplest. rapid can make them, and then shrinks what fails.
type Choices interface {
	Choose(label string, n int) int
}

// Seeded makes choices from a seed.
func Seeded(seed uint64) Choices { return seeded{rand.New(rand.NewPCG(seed, 1))} }

type seeded struct{ *rand.Rand }

func (s seeded) Choose(_ string, n int) int { return s.IntN(n) }

// Scenario is two nodes, some pairs of queue pairs between them, and what each of
// those is to do.
type Scenario struct {
	Settings
	Seed    uint64       // seed of the faults
	Encrypt *seal.Limits // limits of the keys of all RC and UC queue pairs; nil: they are not encrypted
	V6      bool
	Rate    int64
	Delay   qp.Time
	Path    [2]Faults
	Ops     [][2][]Op // a pair, a side
}

// Limits bound a scenario.
type Limits struct {
	Type   verbs.QPType
	Pairs  int // largest number of pairs
	Ops    int // largest number of requests of each endpoint; at least half of it with Exact
	Exact  bool
	MaxLen int
	Faults int // largest share of each kind, in 1/1000; 0: a perfect wire
}

// Draw makes a scenario out of choices.
func Draw(c Choices, l Limits) *Scenario {
	s := &Scenario{Seed: uint64(c.Choose("seed", 1<<30))}
	pick := func(label string, from ...int) int { return from[c.Choose(label, len(from))] }
	timeouts := []int{10, 8, 9} // 1 to 4 ms
	if l.Faults == 0 {
		// Before it knows an RTT, a requester probes after a quarter. A first response may wait for 6 ms behind those of the other pair.
		timeouts = []int{16, 14, 15} // 67 to 270 ms
	}
	s.Settings = Settings{
		Type:        l.Type,
		PMTU:        rocev2.PMTU(pick("PMTU", 3, 1, 2, 4, 5)),
		Selective:   l.Type == verbs.RC && c.Choose("selective", 2) == 1,
		RdAtomic:    uint8(pick("outstanding READs", 4, 1, 2, 16)),
		Timeout:     uint8(pick("timeout", timeouts...)),
		AckPackets:  uint32(pick("packets that ask for no ACK", 0, 16, 3)),
		RetryCnt:    7,
		RNRRetry:    7,
		MinRNRTimer: uint8(pick("RNR timer", 1, 5, 10)),
		MaxSend:     pick("send queue", 16, 1, 4, 64),
		Receives:    pick("receives", 16, 1, 3),
		RecvDelay:   qp.Time(pick("receive delay", 0, 0, 20, 300)) * Microsecond,
		SRQ:         c.Choose("SRQ", 3) == 1,
		Hold:        pick("hold", 512, 0, 1, 7),
	}
	for side := range s.Start {
		s.Start[side] = uint32(pick("first PSN", 0, 1<<24-1, 1<<24-5, 1<<24-40, 1<<23-3, 12345))
	}
	s.V6 = c.Choose("IPv6", 3) == 1
	s.Rate = int64(pick("Gbit/s", 10, 1, 100)) * 1e9
	s.Delay = qp.Time(pick("delay us", 5, 1, 50, 100)) * Microsecond
	if l.Faults > 0 {
		for side := range s.Path {
			s.Path[side] = drawFaults(c, l.Faults)
		}
	}
	kinds := drawKinds(c, operations[l.Type])
	for range 1 + c.Choose("pairs", l.Pairs) {
		var ops [2][]Op
		for side := range ops {
			n := l.Ops
			if !l.Exact {
				n = c.Choose("operations", l.Ops+1)
			}
			for range n {
				ops[side] = append(ops[side], drawOp(c, l, s, kinds, ops[side]))
			}
		}
		s.Ops = append(s.Ops, ops)
	}
	return s
}

func drawFaults(c Choices, most int) Faults {
	p := func(label string) float64 { return float64(c.Choose(label, most+1)) / 1000 }
	f := Faults{Loss: p("loss"), Duplicate: p("duplication"), Reorder: p("reordering"), Corrupt: p("corruption")}
	f.ReorderBy = qp.Time([]int{10, 100, 1000, 5000}[c.Choose("reorder by us", 4)]) * Microsecond
	f.Jitter = qp.Time([]int{0, 3, 50}[c.Choose("jitter us", 3)]) * Microsecond
	return f
}

// What each service can do; SEND first, as the simplest.
var operations = map[verbs.QPType][]verbs.Op{
	verbs.RC: {
		verbs.OpSend, verbs.OpWrite, verbs.OpRead, verbs.OpFetchAdd, verbs.OpCompareSwap, verbs.OpWriteImm,
		verbs.OpSendImm, verbs.OpSendInv, verbs.OpBindWindow,
	},
	verbs.UC: {verbs.OpSend, verbs.OpWrite, verbs.OpSendImm, verbs.OpWriteImm},
	verbs.UD: {verbs.OpSend, verbs.OpSendImm},
}

// drawKinds leaves operations out: what goes wrong between two of them would be
// rare among all.
func drawKinds(c Choices, all []verbs.Op) (some []verbs.Op) {
	for i, without := 0, c.Choose("without", 1<<len(all)); i < len(all); i++ {
		if without>>i&1 == 0 {
			some = append(some, all[i])
		}
	}
	if some == nil {
		return all
	}
	return some
}

func drawOp(c Choices, l Limits, s *Scenario, kinds []verbs.Op, before []Op) Op {
	op := Op{Kind: kinds[c.Choose("operation", len(kinds))], Cuts: 1 + c.Choose("cuts", maxSGE)}
	most := l.MaxLen
	if l.Type == verbs.UD {
		most = s.PMTU.Bytes()
	}
	switch c.Choose("size", 6) {
	case 0:
		op.Len = c.Choose("length", 65)
	case 1, 2:
		op.Len = c.Choose("length", 3*s.PMTU.Bytes())
	case 3: // around a multiple of the PMTU
		op.Len = c.Choose("packets", 8)*s.PMTU.Bytes() + c.Choose("more", 3) - 1
	case 4:
		op.Len = c.Choose("length", 8192)
	case 5:
		op.Len = c.Choose("length", most+1)
	}
	op.Len = max(0, min(op.Len, most))
	op.Source = c.Choose("source", 1<<16)
	if c.Choose("far", 2) == 1 {
		op.Remote = c.Choose("remote", targetSize)
	} else {
		op.Remote = c.Choose("remote", 1024) // where others go too
	}
	op.Imm = uint32(c.Choose("immediate", 1<<16) * 65537)
	op.A, op.B = uint64(c.Choose("operand", 1<<16)), uint64(c.Choose("operand", 1<<16))<<40
	if c.Choose("unsignaled", 3) != 1 {
		op.Flags |= verbs.Signaled
	}
	if c.Choose("solicited", 4) == 1 && receives(op.Kind) {
		op.Flags |= verbs.Solicited
	}
	if c.Choose("fence", 6) == 1 && l.Type == verbs.RC {
		op.Flags |= verbs.Fence
	}
	if op.Len <= maxInline && c.Choose("inline", 3) == 1 && (isSend(op.Kind) || isWrite(op.Kind)) {
		op.Flags |= verbs.Inline
	}
	if c.Choose("delay", 8) == 1 {
		op.Delay = qp.Time(c.Choose("delay", 200)) * Microsecond
	}
	if n := len(before); n > 0 && before[n-1].Kind == verbs.OpRead && (isSend(op.Kind) || isWrite(op.Kind)) && c.Choose("relay", 3) == 1 {
		op.Relay = true
		op.Flags &^= verbs.Inline
	}
	return op
}

// Count is the number of operations.
func (s *Scenario) Count() (n int) {
	for _, p := range s.Ops {
		n += len(p[0]) + len(p[1])
	}
	return n
}

func (s *Scenario) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\nseed %d v6=%v rate %d delay %d\n%+v\n", s.Settings, s.Seed, s.V6, s.Rate, s.Delay, s.Path)
	for i, p := range s.Ops {
		for side := range p {
			for j, op := range p[side] {
				if j > 60 {
					fmt.Fprintf(&b, "... %d operations\n", len(p[side]))
					break
				}
				fmt.Fprintf(&b, "pair %d side %d op %d: %v\n", i, side, j, op)
			}
		}
	}
	return b.String()
}
