// SPDX-License-Identifier: Apache-2.0

package card

import (
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/engine"
)

// output has the frames that the engine has built and NextFrame has not returned.
type output struct {
	frames  []outFrame
	free    [][]byte
	stamped bool // the frame that is being built has the option
}

type outFrame struct {
	port, n int
	b       []byte
}

// outputRoom is how many frames of data are built ahead. A frame has its time T1 from when it is built, so its wait in the
// card would count as one on the way.
const outputRoom = 1

// outPort is a port as the engine sees it.
type outPort struct {
	d   *network
	num int
}

var _ engine.Port = (*outPort)(nil)

// Room implements engine.Port.
func (p *outPort) Room() bool { return len(p.d.out.frames) < outputRoom }

// Frame implements engine.Port.
func (p *outPort) Frame() []byte {
	o := &p.d.out
	if o.stamped = false; len(o.free) == 0 {
		o.free = append(o.free, make([]byte, FrameLen))
	}
	return o.free[len(o.free)-1]
}

// Push implements engine.Port.
func (p *outPort) Push(n int) {
	o := &p.d.out
	last := len(o.free) - 1
	o.frames = append(o.frames, outFrame{p.num, n, o.free[last]})
	o.free = o.free[:last]
	size := n - etherLen
	if o.stamped {
		size -= rocev2.StampLen
	}
	at := regs.PortsBase + uint64(p.num)*regs.PortsStride
	p.d.in.add(at+regs.PortsTxPacketsOffset, 1)
	p.d.in.add(at+regs.PortsTxBytesOffset, uint64(size))
}

// pop removes the first frame. The caller gives its memory back by recycle.
func (o *output) pop() outFrame {
	f := o.frames[0]
	o.frames = append(o.frames[:0], o.frames[1:]...)
	return f
}

func (o *output) recycle(f outFrame) { o.free = append(o.free, f.b) }
