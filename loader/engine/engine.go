// SPDX-License-Identifier: Apache-2.0

// Package engine opens the NIC (rocev2/nic) on an attached interface: it is the
// NIC's way to the pinned maps.
package engine

import (
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Open makes a device on an interface that the product is attached to, in the
// network namespace of the calling thread. Only one can be open on an interface,
// whatever the process; the error wraps loader.ErrEngineRunning then.
func Open(ifname string, lo loader.Options, o nic.Options) (*nic.Device, error) {
	att, err := loader.Open(ifname, lo)
	if err != nil {
		return nil, fmt.Errorf("open the device: %w", err)
	}
	if !att.Alive() {
		att.Close()
		return nil, fmt.Errorf("open the device: %s: the interface that was attached is gone: run `softroce-xdp clean`", ifname)
	}
	seat, err := att.TakeEngineSeat()
	if err != nil {
		att.Close()
		return nil, fmt.Errorf("open the device: %w", err)
	}
	if o.PreCredit {
		seat.AnnounceCredit()
	}
	o.Interface = ifname
	d, err := nic.Open(&wire{att: att, EngineSeat: seat}, o)
	if err != nil {
		return nil, fmt.Errorf("open the device on %s: %w", ifname, err)
	}
	return d, nil
}

// wire is the seat as the NIC wants it.
type wire struct {
	*loader.EngineSeat
	att   *loader.Attachment
	slots []bpf.EngineSlot
}

func (w *wire) Close() error {
	err := w.EngineSeat.Close()
	w.att.Close()
	return err
}

// RuntimeConfig is nic.Dataplane.
func (w *wire) RuntimeConfig() nic.RuntimeConfig {
	c := w.Config()
	mono := loader.Monotonic()
	l := nic.RuntimeConfig{
		InitialRate: atomic.LoadUint64(&c.InitialRateBps), Burst: qp.Time(c.BurstNs),
		LinkRate: atomic.LoadUint64(&c.LinkRateBps),
		Paced:    c.Pacer != bpf.PacerNone && !heartbeatStopped(c, mono),
	}
	if w.Clock() == "tai" {
		l.ClockOffset = int64(loader.Clock(unix.CLOCK_TAI) - mono)
	}
	return l
}

// heartbeatStopped: without an agent nobody changes rates any more, and pacing by the
// last ones could block for ever (bpf/lib/pace.h).
func heartbeatStopped(c *bpf.Config, mono uint64) bool {
	return c.HeartbeatTimeoutNs != 0 &&
		int64(mono-atomic.LoadUint64(&c.HeartbeatNs)) > int64(c.HeartbeatTimeoutNs)
}

// Sync is nic.Dataplane.
func (w *wire) Sync(dests []nic.DestSync) error {
	w.slots = slices.Grow(w.slots[:0], len(dests))[:len(dests)]
	for i := range dests {
		d, s := &dests[i], &w.slots[i]
		*s = bpf.EngineSlot{
			Key: bpf.KeyOf(d.Addr), TxPackets: d.Packets, TxBytes: d.Bytes, TxUnstamped: d.Unstamped,
			Rewinds: d.Repeated, Lost: d.Lost, Paced: d.Waited, PacedNs: uint64(d.WaitedTime), RateBps: d.Rate,
			RttNs: uint64(d.RTT), RttSentNs: d.RTTSent,
		}
		if d.CEEchoed {
			s.Flags = bpf.CEEchoed
		}
		if d.Due {
			s.Flags |= bpf.AnswerDue
		}
		if d.Waits {
			s.Flags |= bpf.EngineWaits
		}
	}
	if err := w.EngineSeat.Sync(w.slots); err != nil {
		return err
	}
	for i := range dests {
		d, s := &dests[i], &w.slots[i]
		d.Known, d.Rate, d.Window = s.Found != 0, s.RateBps, uint64(s.WindowBytes)
		d.Stamps, d.SACK = s.Caps&bpf.CapStamp != 0, s.Caps&bpf.CapSACK != 0
		d.Credit, d.Token = s.Caps&bpf.CapCredit != 0, s.TxToken
	}
	return nil
}

var _ nic.Dataplane = (*wire)(nil)
