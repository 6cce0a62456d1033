// SPDX-License-Identifier: Apache-2.0

package experiment

import "github.com/softroce/softroce-xdp/cc/sim"

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
