// SPDX-License-Identifier: Apache-2.0

package schemes

import "github.com/softroce/softroce-xdp/cc/sim"

// rounds follows a flow's packets, for schemes that decide once per round trip.
type rounds struct{ next uint64 }

func (r *rounds) sent(d *sim.Data) { r.next = max(r.next, uint64(d.PSN)+1) }

// acked is one more than the packet that a answers.
func acked(a *sim.Ack) uint64 { return uint64(a.PSN) + 1 }

// perPath keeps what is computed from a path's rate and round trip. A network has
// few different ones.
type perPath[P any] struct {
	keys   []pathKey
	values []*P
}

type pathKey struct {
	linkBps, minBps uint64
	rtt             int64
	packet          int
}

func (c *perPath[P]) get(p *sim.Path, make func(*sim.Path) P) *P {
	key := pathKey{p.LinkBps, p.MinBps, p.BaseRTTNs, p.PacketBytes}
	for i, k := range c.keys {
		if k == key {
			return c.values[i]
		}
	}
	v := make(p)
	c.keys = append(c.keys, key)
	c.values = append(c.values, &v)
	return &v
}

// red is marking in proportion to a port's rate: thresholds at 25 Gb/s.
func red(kmin, kmax int64, pmax float64) func(uint64) sim.ECN {
	return func(bps uint64) sim.ECN {
		scale := float64(bps) / 25e9
		return sim.ECN{KminBytes: int64(float64(kmin) * scale), KmaxBytes: int64(float64(kmax) * scale), Pmax: pmax}
	}
}

// window is the window that goes with a rate: the bandwidth-delay product at line
// rate, scaled (the "+w" schemes of the HPCC paper).
type window struct {
	on  bool
	rtt int64 // 0 = the path's own
}

func (w *window) fields() []field {
	return []field{
		boolField("window", &w.on, "limit bytes in flight to the rate's bandwidth-delay product"),
		timeField("base-rtt", &w.rtt, "round trip of that product, and of what is counted per round trip"),
	}
}

func (w *window) baseRTT(p *sim.Path) int64 {
	if w.rtt != 0 {
		return w.rtt
	}
	return p.BaseRTTNs
}

// set puts a rate, and the window if there is one, into the pacer.
func (w *window) set(p *sim.Pacer, bps float64) {
	p.RateBps = max(uint64(bps+0.5), 1)
	if w.on {
		path := p.Path
		path.BaseRTTNs = w.baseRTT(&path)
		full := float64(path.BDPBytes())
		p.WindowBytes = max(int64(full*bps/float64(path.LinkBps)), 1)
	}
}
