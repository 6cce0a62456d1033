// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
)

// setRate makes rate the only one that the policy may choose: in mode fixed it follows
// its bounds at its next evaluation.
func (b *bench) setRate(rate uint64) {
	p := &b.live.Policy
	if rate > p.MaxRateBps {
		p.MaxRateBps = rate
	}
	p.MinRateBps = rate
	p.MaxRateBps = rate
}

// change sets the rate and returns how long the table took.
func (b *bench) change(rate uint64) (time.Duration, error) {
	start := time.Now()
	b.setRate(rate)
	err := b.await("the rate", func(d *bpf.DestRegs) bool { return d.RateBps == rate })
	return time.Since(start), err
}

// offer is what a source sends that no pacer holds back: enough more than the rate for
// the pacer to be the limit.
func offer(rate uint64) uint64 { return rate + rate/2 }

// unpaced is what the source can send at the interface's rate, bit/s.
func (b *bench) unpaced() (float64, error) {
	b.src.start(linkRate)
	if _, err := b.change(linkRate); err != nil {
		return 0, err
	}
	time.Sleep(200 * time.Millisecond)
	rate, err := b.rate(300 * time.Millisecond)
	if err != nil {
		return 0, err
	}
	return rate, b.src.stop()
}

// tries measures again while the row is not as promised and the machine may be to
// blame: not if it is too fast, or packets came out of order. At last it asks whether the
// machine still carries the rate.
func (b *bench) tries(r *PacerRow) error {
	for {
		r.Tries++
		if err := b.measure(r); err != nil {
			return err
		}
		if r.Verdict() == nil || r.Broken() != nil && !b.cfg.Stalls || r.Reordered > 0 {
			return nil
		}
		if r.Tries < b.cfg.Tries {
			continue
		}
		if r.Error() < -MaxError {
			now, err := b.unpaced()
			if err != nil {
				return err
			}
			r.carries(now)
		}
		return nil
	}
}

// measure fills in a row.
func (b *bench) measure(r *PacerRow) (err error) {
	low := r.RateBps / 10
	b.sink.reset()
	b.src.start(offer(r.RateBps))
	if _, err := b.change(r.RateBps); err != nil {
		return err
	}
	time.Sleep(300*time.Millisecond + b.packets(5, r.RateBps)) // what an idle destination has saved up
	// The median of three: on a machine that others use, all may stand still for longer
	// than the burst of a destination.
	var windows [3]float64
	for i := range windows {
		if windows[i], err = b.rate(max(b.cfg.Measure/3, b.packets(100, r.RateBps))); err != nil {
			return err
		}
	}
	slices.Sort(windows[:])
	r.Measured = windows[1]
	if low >= b.lowest() {
		if r.Down, err = b.step(r.RateBps, low); err != nil {
			return err
		}
		if r.Up, err = b.step(low, r.RateBps); err != nil {
			return err
		}
	}
	r.Reordered = b.sink.reordered()
	return b.src.stop()
}

// lowest is the rate from which on changes are measured. Below, packets are too far apart
// for any time to be told; with edt, what the source may have waiting is more than the
// second of packets that the data plane paces.
func (b *bench) lowest() uint64 {
	if b.name == "edt" {
		return 1_000_000
	}
	return 100_000
}

// packets is the time that n packets take at a rate.
func (b *bench) packets(n int, rate uint64) time.Duration {
	return time.Duration(float64(n*b.frame*8) / float64(rate) * float64(time.Second))
}

// rate is what leaves, in bit/s, from one packet to another. A stall of this process can only
// make it smaller.
func (b *bench) rate(d time.Duration) (float64, error) {
	n0, t0, _, err := b.edge()
	if err != nil {
		return 0, err
	}
	time.Sleep(d)
	n1, _, t1, err := b.edge()
	if err != nil {
		return 0, err
	}
	return float64(n1-n0) * float64(b.frame*8) / t1.Sub(t0).Seconds(), nil
}

// edge waits for a packet and returns the count, and times before and after the packet.
func (b *bench) edge() (n uint64, before, after time.Time, err error) {
	before = time.Now()
	n0, _, err := b.sent()
	for deadline := before.Add(2 * time.Second); err == nil; {
		look := time.Now()
		n, after, err = b.sent()
		if n != n0 || after.After(deadline) {
			break
		}
		before = look
	}
	return n, before, after, err
}

// step changes the rate under load. Of what left in the time after the table has the
// new rate, so much left at the old one: that is how late the change was.
func (b *bench) step(from, to uint64) (c Change, err error) {
	if c.Table, err = b.change(to); err != nil {
		return c, err
	}
	n0, t0, err := b.sent()
	if err != nil {
		return c, err
	}
	time.Sleep(max(200*time.Millisecond, b.packets(8, to)))
	n1, _, t1, err := b.edge()
	if err != nil {
		return c, err
	}
	bits := float64(n1-n0) * float64(b.frame*8)
	took := t1.Sub(t0).Seconds()
	late := (bits - float64(to)*took) / (float64(from) - float64(to))
	c.Wire = time.Duration(late * float64(time.Second))
	time.Sleep(100 * time.Millisecond)
	return c, nil
}
