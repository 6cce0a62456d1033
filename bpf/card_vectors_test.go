// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"flag"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/vectors"
	"github.com/softroce/softroce-xdp/rocev2"
)

var cardStreams = flag.Int("card.streams", 100, "random streams of TestCardVectors, of 200 events each")

// The destination table of the card and that of the data plane have the same bits after every
// event (S1.3 to S1.6). A difference is printed as the shortest stream that shows it.
func TestCardVectors(t *testing.T) {
	programs := newDataPlane(t)
	files, err := vectors.Committed()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := f.Replay(programs); err != nil {
			t.Error(err)
		}
	}
	for seed := range *cardStreams {
		v := vectors.Random(uint64(seed), 200)
		v.Name = fmt.Sprintf("random, seed %d", seed)
		if text := vectors.Explain(&v, programs, vectors.Model); text != "" {
			t.Fatalf("the data plane (first) differs from the card (second): %s", text)
		}
	}
}

// dataPlane replays events on the programs.
type dataPlane struct {
	l      *lab
	slots  []bpf.AgentSlot
	params fourcase.Params
}

// newDataPlane loads the programs. There is one table of them, so a second implementation that
// is made replaces the first.
func newDataPlane(t *testing.T, change ...func(*ebpf.CollectionSpec)) vectors.Maker {
	l := newLab(t, change...)
	slots := l.callBuffer()
	return func(v *vectors.Vector) vectors.Table {
		l = l.with(t)
		l.config(func(c *bpf.Config) { c.Policy = *bpf.ParamsFrom(&v.Params) })
		l.know(peer4, func(d *bpf.DestRegs) { *d = v.First() })
		return &dataPlane{l, slots, v.Params}
	}
}

func (p *dataPlane) Regs() bpf.DestRegs {
	p.l.t.Helper()
	return p.l.regs(peer4)
}

func (p *dataPlane) Do(e *vectors.Event) {
	l := p.l
	l.t.Helper()
	l.at(e.At)
	if !e.Evaluate {
		l.in(fromPeer(l.t, datagramOf(&e.Packet)))
		return
	}
	if l.agentCall(bpf.AgentCollect, 1) == 0 {
		return
	}
	vectors.Decide(&p.slots[0].Regs, &p.params, e.At)
	p.slots[0].Op = bpf.SetPolicy
	l.agentCall(bpf.AgentApply, 1)
}

func datagramOf(p *card.Packet) rocev2.Datagram {
	d := write(vectors.PayloadBytes)
	if p.Feedback {
		d = ack(100)
		d.Syndrome = rocev2.Syndrome(p.Syndrome)
	}
	d.Stamp = &p.Stamp
	if p.CE {
		d.TOS = 3
	}
	return d
}

// A data plane with one constant or one comparison changed does not have the same bits: the
// streams of TestCardVectors find it.
func TestCardVectorsFindMutations(t *testing.T) {
	const maxRTT = 10_000_000_000 // ECHO_MAX_RTT_NS
	for name, mutate := range map[string]func(ins *asm.Instruction, line string) bool{
		"a smaller limit of the RTT": func(ins *asm.Instruction, _ string) bool {
			if !ins.OpCode.IsDWordLoad() || ins.Constant != maxRTT && ins.Constant != maxRTT+1 {
				return false
			}
			ins.Constant /= 4
			return true
		},
		"minimum and maximum exchanged": func(ins *asm.Instruction, line string) bool {
			if !strings.Contains(line, "tx < d->win_tx_ns") {
				return false
			}
			switch op := ins.OpCode.JumpOp(); op {
			case asm.JSGE:
				ins.OpCode = ins.OpCode.SetJumpOp(asm.JSLT)
			case asm.JSLT:
				ins.OpCode = ins.OpCode.SetJumpOp(asm.JSGE)
			default:
				return false
			}
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed := 0
			programs := newDataPlane(t, func(spec *ebpf.CollectionSpec) {
				ins := spec.Programs["softroce_ingress"].Instructions
				line := "" // of the source: the first instruction of a line has it
				for i := range ins {
					if s := ins[i].Source(); s != nil {
						line = s.String()
					}
					if mutate(&ins[i], line) {
						changed++
					}
				}
			})
			if changed == 0 {
				t.Fatal("the mutation matches no instruction: adapt it to the compiler's output")
			}
			for seed := range uint64(50) {
				v := vectors.Random(seed, 200)
				if vectors.FirstDifference(&v, programs, vectors.Model) < 0 {
					continue
				}
				// A minimum needs one sample, or two to compare; nothing in between is left.
				if short := vectors.Shrink(&v, programs, vectors.Model); len(short.Events) > 2 {
					t.Errorf("%d events show the mutation:\n%s", len(short.Events), vectors.Expect(short))
				}
				return
			}
			t.Error("no stream finds the mutation")
		})
	}
}

// A table with all entries of a card: each entry has the same bits in both after packets of all
// destinations, and a packet of one more destination changes none. The data plane makes entries
// for packets that it sends only (S1.2).
func TestCardVectorsFullTable(t *testing.T) {
	l := newLab(t)
	m := card.New()
	address := func(node int) netip.Addr {
		return netip.AddrFrom4([4]byte{10, 9, byte(node >> 8), byte(node)})
	}
	v := vectors.All()[0]
	first := v.First()
	put := func(node int) {
		for i, w := range unsafe.Slice((*uint64)(unsafe.Pointer(&first)), unsafe.Sizeof(first)/8) {
			m.W64(regs.DestBase+uint64(node-1)*regs.DestStride+uint64(i)*8, w)
		}
	}
	receive := func(node int) {
		p := v.Events[1].Packet // feedback
		now := uint64(1_000_000 + node)
		p.Stamp.T1, p.Stamp.EchoT1, p.Stamp.EchoT2 = now-1, now-uint64(10+node), now-uint64(3+node%5)
		l.at(now)
		d := datagramOf(&p)
		d.Src = address(node)
		l.in(fromPeer(t, d))
		m.Receive(node, &p, now)
	}
	for node := 1; node <= regs.DestCount; node++ {
		first.Node = uint32(node)
		put(node)
		l.know(address(node), func(d *bpf.DestRegs) { *d = first })
	}
	behind := func() (words [regs.DestStride / 8]uint64) {
		for i := range words {
			words[i] = m.R64(regs.DestBase + regs.DestCount*regs.DestStride + uint64(i)*8)
		}
		return words
	}
	before := behind()
	for node := 1; node <= regs.DestCount+1; node++ {
		receive(node)
	}
	if behind() != before {
		t.Error("the card has changed registers behind the table")
	}
	if n := l.entries(); n != regs.DestCount {
		t.Errorf("the data plane has %d entries, want %d", n, regs.DestCount)
	}
	for node := 1; node <= regs.DestCount; node++ {
		want := l.regs(address(node))
		var got bpf.DestRegs
		for i := range unsafe.Sizeof(got) / 8 {
			*(*uint64)(unsafe.Add(unsafe.Pointer(&got), i*8)) = m.R64(regs.DestBase + uint64(node-1)*regs.DestStride + uint64(i)*8)
		}
		if got != want || want.RxPackets != 1 || want.WinRttNs != int64(10+node) {
			t.Fatalf("node %d: %s", node, cmp.Diff(want, got))
		}
	}
}
