// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/cc/sim"
)

// cross is a scheme under which some hosts obey nobody: they send at a rate of
// their own.
type cross struct {
	sim.Scheme
	rates map[int]uint64 // bit/s, by host
}

func (c cross) NewControl(now int64, p *sim.Pacer) sim.Control {
	rate, ok := c.rates[p.Src]
	if !ok {
		return c.Scheme.NewControl(now, p)
	}
	p.RateBps = rate
	return sim.NoControl{}
}

// windowed is a scheme whose hosts limit what is in flight where it does not.
type windowed struct {
	sim.Scheme
	bytes int64
}

func (w windowed) NewControl(now int64, p *sim.Pacer) sim.Control {
	c := w.Scheme.NewControl(now, p)
	if p.WindowBytes == 0 {
		p.WindowBytes = w.bytes
	}
	return c
}

// bySize is a scheme whose hosts mark each message with the data queue of its size, where the
// scheme itself marks nothing.
type bySize struct {
	sim.Scheme
	queues int
}

func (b bySize) NewControl(now int64, p *sim.Pacer) sim.Control {
	return &marking{b.Scheme.NewControl(now, p), b.queues}
}

type marking struct {
	sim.Control
	queues int
}

func (m *marking) Start(now int64, p *sim.Pacer, f *sim.Flow) {
	size := precredit.FlowSize{KnownBytes: uint64(f.Size)}
	f.Class = size.QueueIndex(uint64(p.Path.BDPBytes()), m.queues)
	m.Control.Start(now, p, f)
}
