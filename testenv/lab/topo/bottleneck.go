// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/vishvananda/netlink"
)

// ethernetHeader is what a qdisc counts on top of the MTU.
const ethernetHeader = 14

// Bottleneck is a token bucket with a finite queue.
type Bottleneck struct {
	// RateBPS in bits per second of Ethernet frames without preamble and FCS:
	// that is what the kernel counts.
	RateBPS uint64

	// Limit is how many bytes may wait; what comes on top is dropped. 0 takes
	// LimitTime.
	Limit int

	// LimitTime is the same as time at the rate; 0 means 20 ms.
	LimitTime time.Duration

	// Burst is the bucket in bytes: what may leave back to back after a pause. 0 takes
	// BurstTime.
	Burst int

	// BurstTime is the same as time at the rate, at least two frames; 0 means 1 ms. A
	// pause of the machine longer than that costs throughput for good, because the
	// bucket overflows.
	BurstTime time.Duration
}

const (
	defaultLimitTime = 20 * time.Millisecond
	defaultBurstTime = time.Millisecond
)

// check validates the bottleneck and turns times into bytes.
func (b *Bottleneck) check(mtu int) error {
	frame := mtu + ethernetHeader
	if b.RateBPS < 8000 || b.RateBPS > 8*math.MaxUint32 {
		return fmt.Errorf("bottleneck of %d bit/s; use 8 kbit/s to 34 Gbit/s", b.RateBPS)
	}
	if b.Limit < 0 || b.LimitTime < 0 || b.Burst < 0 || b.BurstTime < 0 {
		return errors.New("bottleneck with a negative size")
	}
	if b.Limit == 0 {
		if b.LimitTime == 0 {
			b.LimitTime = defaultLimitTime
		}
		b.Limit = max(b.bytesIn(b.LimitTime), 2*frame)
	}
	if b.Burst == 0 {
		if b.BurstTime == 0 {
			b.BurstTime = defaultBurstTime
		}
		b.Burst = max(b.bytesIn(b.BurstTime), 2*frame)
	}
	if b.Limit < frame || b.Burst < frame || b.Limit > math.MaxUint32 {
		return fmt.Errorf("bottleneck with limit %d and burst %d bytes; each must hold a frame of %d bytes", b.Limit, b.Burst, frame)
	}
	return nil
}

func (b *Bottleneck) bytesIn(d time.Duration) int {
	return int(float64(b.RateBPS) / 8 * d.Seconds())
}

// Bottleneck returns what is installed, with all sizes in bytes, or nil.
func (p *Port) Bottleneck() *Bottleneck {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conf == nil {
		return nil
	}
	b := *p.conf
	return &b
}

// SetBottleneck installs or changes the bottleneck; nil removes it. A change
// keeps the queued packets.
func (p *Port) SetBottleneck(b *Bottleneck) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b == nil {
		if p.conf == nil {
			return nil
		}
		if err := p.sw.nl.QdiscDel(p.tbf(*p.conf)); err != nil {
			return fmt.Errorf("topo: %s: remove bottleneck: %w", p.name, err)
		}
		p.conf = nil
		return nil
	}
	conf := *b
	if err := conf.check(p.mtu); err != nil {
		return fmt.Errorf("topo: %s: %w", p.name, err)
	}
	if err := p.sw.nl.QdiscReplace(p.tbf(conf)); err != nil {
		return fmt.Errorf("topo: %s: set bottleneck: %w", p.name, err)
	}
	p.conf = &conf
	return nil
}

// SetRate changes the rate alone. As in a real switch the buffer stays the same
// number of bytes, so a slower port holds packets for longer.
func (p *Port) SetRate(bps uint64) error {
	b := p.Bottleneck()
	if b == nil {
		return fmt.Errorf("topo: %s has no bottleneck; SetBottleneck installs one", p.name)
	}
	b.RateBPS = bps
	if b.BurstTime != 0 {
		b.Burst = 0 // the bucket is a time: work it out anew
	}
	return p.SetBottleneck(b)
}

func (p *Port) tbf(b Bottleneck) *netlink.Tbf {
	rate := b.RateBPS / 8 // TBF counts bytes per second
	return &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: p.index,
			Handle:    netlink.MakeHandle(1, 0),
			Parent:    netlink.HANDLE_ROOT,
		},
		Rate:   rate,
		Limit:  uint32(b.Limit),
		Buffer: netlink.Xmittime(rate, uint32(b.Burst)),
	}
}

// QueueStats are a port's counters since it got its bottleneck.
type QueueStats struct {
	At          time.Time // time at which they were read
	Sent        uint64    // bytes of frames that left (Ethernet header included, FCS not)
	SentPackets uint64
	Backlog     uint32 // bytes waiting
	Queued      uint32 // packets waiting
	Drops       uint32 // packets that found the queue full
}

// Queue reads the port's queue.
func (p *Port) Queue() (QueueStats, error) {
	all, err := p.sw.queues()
	if err != nil {
		return QueueStats{}, err
	}
	s, ok := all[p.index]
	if !ok {
		return QueueStats{}, fmt.Errorf("topo: %s has no bottleneck, so no queue to look at", p.name)
	}
	return s, nil
}

// Queues reads the queues of all ports with one request, in the order of the
// hosts; hosts without a bottleneck are zero.
func (t *Topology) Queues() ([]QueueStats, error) {
	all, err := t.sw.queues()
	if err != nil {
		return nil, err
	}
	out := make([]QueueStats, len(t.hosts))
	for i, h := range t.hosts {
		out[i] = all[h.port.index]
	}
	return out, nil
}

func (h *Host) queues() (map[int]QueueStats, error) {
	qdiscs, err := h.nl.QdiscList(nil)
	now := time.Now()
	if err != nil {
		return nil, fmt.Errorf("topo: read queues: %w", err)
	}
	out := map[int]QueueStats{}
	for _, q := range qdiscs {
		a := q.Attrs()
		if a.Parent != netlink.HANDLE_ROOT || q.Type() != "tbf" || a.Statistics == nil {
			continue
		}
		s := QueueStats{At: now}
		if b := a.Statistics.Basic; b != nil {
			s.Sent, s.SentPackets = b.Bytes, uint64(b.Packets)
		}
		if b := a.Statistics.Queue; b != nil {
			s.Backlog, s.Queued, s.Drops = b.Backlog, b.Qlen, b.Drops
		}
		out[a.LinkIndex] = s
	}
	return out, nil
}
