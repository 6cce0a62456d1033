// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/vectors"
	"github.com/softroce/softroce-xdp/rocev2"
)

var cardStreams = flag.Int("card.streams", 100, "random streams of TestCardVectors, of 200 events each")

// The destination table of the card and that of the data plane have the same bits after every
// event (S1.3 to S1.6).
func TestCardVectors(t *testing.T) {
	l := newLab(t)
	slots := l.callBuffer()
	all := vectors.All()
	for seed := range *cardStreams {
		v := vectors.Random(uint64(seed), 200)
		v.Name = fmt.Sprintf("random, seed %d", seed)
		all = append(all, v)
	}
	for _, v := range all {
		l = l.with(t)
		if i := l.firstDifference(slots, &v); i >= 0 {
			t.Fatalf("%s: after event %d (%+v) the card differs from the data plane", v.Name, i, v.Events[i])
		}
	}
}

// firstDifference replays a stream on the programs and on the model of the card. It returns
// the first event after which their entries differ, and logs the difference, or -1.
func (l *lab) firstDifference(slots []bpf.AgentSlot, v *vectors.Vector) int {
	l.t.Helper()
	l.config(func(c *bpf.Config) { c.Policy = *bpf.ParamsFrom(&v.Params) })
	l.know(peer4, func(d *bpf.DestRegs) { *d = v.First() })
	c := vectors.NewCard(v)
	for i := range v.Events {
		c.Do(&v.Events[i])
		l.replay(slots, &v.Params, &v.Events[i])
		if want, got := l.regs(peer4), c.Regs(); got != want {
			l.t.Logf("data plane (-), card (+):\n%s", cmp.Diff(want, got))
			return i
		}
	}
	return -1
}

// replay executes an event on the programs.
func (l *lab) replay(slots []bpf.AgentSlot, p *fourcase.Params, e *vectors.Event) {
	l.t.Helper()
	l.at(e.At)
	if !e.Evaluate {
		l.in(fromPeer(l.t, datagramOf(&e.Packet)))
		return
	}
	if l.agentCall(bpf.AgentCollect, 1) == 0 {
		return
	}
	vectors.Decide(&slots[0].Regs, p, e.At)
	slots[0].Op = bpf.SetPolicy
	l.agentCall(bpf.AgentApply, 1)
}

func datagramOf(p *card.Packet) rocev2.Datagram {
	d := write(vectors.PayloadBytes)
	if p.Feedback {
		d = ack(100)
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
	for name, mutate := range map[string]func(ins *asm.Instruction) bool{
		"a smaller limit of the RTT": func(ins *asm.Instruction) bool {
			if !ins.OpCode.IsDWordLoad() || ins.Constant != maxRTT && ins.Constant != maxRTT+1 {
				return false
			}
			ins.Constant /= 4
			return true
		},
		"minimum and maximum exchanged": func(ins *asm.Instruction) bool {
			if !strings.Contains(fmt.Sprint(ins.Source()), "tx < d->win_tx_ns") {
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
			l := newLab(t, func(spec *ebpf.CollectionSpec) {
				ins := spec.Programs["softroce_ingress"].Instructions
				for i := range ins {
					if mutate(&ins[i]) {
						changed++
					}
				}
			})
			if changed == 0 {
				t.Fatal("the mutation matches no instruction: adapt it to the compiler's output")
			}
			slots := l.callBuffer()
			for seed := range uint64(50) {
				v := vectors.Random(seed, 200)
				if l = l.with(t); l.firstDifference(slots, &v) >= 0 {
					return
				}
			}
			t.Error("no stream finds the mutation")
		})
	}
}
