// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/rtl"
)

// Deciding replays events on a card that makes the decisions of mode literal itself (command
// decide of block calls). In the other modes it executes the calls of the policy loop. The
// entry is that of node 1.
type Deciding struct {
	regs.Bus
	receive  func(node int, p *card.Packet, now uint64)
	setClock func(now uint64)
	read     func(addr uint64, dst []uint64)
	params   fourcase.Params
}

// RTL returns the Maker of a simulated card. The entries that it makes are the same one of the
// card, so each is used before the next is made.
func RTL(c *rtl.Card) Maker {
	setClock := func(now uint64) { c.SetClock(now, false) }
	return func(v *Vector) Table {
		return (&Deciding{c, c.Receive, setClock, c.R64s, v.Params}).start(v)
	}
}

// DecidingModel is the Maker of a model that decides itself.
func DecidingModel(v *Vector) Table {
	now := uint64(0)
	m := card.NewAt(func() uint64 { return now })
	read := func(addr uint64, dst []uint64) {
		for i := range dst {
			dst[i] = m.R64(addr + uint64(i)*8)
		}
	}
	return (&Deciding{m, m.Receive, func(t uint64) { now = t }, read, v.Params}).start(v)
}

// start writes the entry before the first event, and block fourcase.
func (c *Deciding) start(v *Vector) *Deciding {
	d := v.First()
	c.write(regs.DestBase, bpf.WordsOf(&d))
	c.write(regs.FourcaseBase, paramWordsOf(&c.params)[:])
	return c
}

func (c *Deciding) write(addr uint64, words []uint64) {
	for i, w := range words {
		c.W64(addr+uint64(i)*8, w)
	}
}

// Regs reads the entry.
func (c *Deciding) Regs() (d bpf.DestRegs) {
	c.read(regs.DestBase, bpf.WordsOf(&d))
	return d
}

// Do executes one event.
func (c *Deciding) Do(e *Event) {
	if !e.Evaluate {
		c.receive(1, &e.Packet, e.At)
		return
	}
	c.setClock(e.At)
	calls := regs.CallsOf(c)
	if c.params.Mode == fourcase.ModeLiteral {
		calls.SetDecide(regs.CallsDecide(0).WithDecideStart(true))
		return
	}
	calls.SetCollect(regs.CallsCollect(0).WithCollectStart(true))
	if !calls.Result().Done() {
		return
	}
	var d bpf.DestRegs
	c.read(regs.CallsBase+regs.CallsBufferOffset, bpf.WordsOf(&d))
	Decide(&d, &c.params, e.At)
	c.write(regs.CallsBase+regs.CallsBufferOffset, bpf.WordsOf(&d))
	calls.SetApply(regs.CallsApply(0).WithApplySet(bpf.SetPolicy).WithApplyStart(true))
}
