// SPDX-License-Identifier: Apache-2.0

// Package engine opens the NIC (rocev2/nic) on an attached interface: it connects the NIC to
// the pinned maps. It is the driver "softroce" of package rdma.
package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

func init() { rdma.Register("softroce", rdma.DriverFunc(open)) }

// Config is the configuration of the driver "softroce" of package rdma.
type Config struct {
	Loader loader.Options // options by which the attachment is found
	NIC    Options        // Interface is the name of the device
	Rails  []string       // further attached interfaces, for queue pairs in out-of-order mode
}

// open returns the error of ctx if it has ended by the time when there is a device. Nothing that
// Open does takes longer than the wait for the lease, 100 ms.
func open(ctx context.Context, name string, config any) (verbs.Device, error) {
	c, ok := config.(Config)
	if !ok && config != nil {
		return nil, fmt.Errorf("the configuration is a %T; use engine.Config or nil", config)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d, err := OpenRails(name, c.Rails, c.Loader, c.NIC)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Open opens a device on an attached interface, in the network namespace of the calling
// thread. The interface must be there, under the name of the attach. An interface has at most
// one device at a time, in any process: for a second one the error wraps
// loader.ErrEngineRunning.
func Open(ifname string, lo loader.Options, o Options) (*Device, error) {
	return OpenRails(ifname, nil, lo, o)
}

// OpenRails is Open with further interfaces, which are attached too, for queue pairs in out-of-order mode. None of them
// can have another device.
func OpenRails(ifname string, rails []string, lo loader.Options, o Options) (*Device, error) {
	w, err := openWire(ifname, lo)
	if err != nil {
		return nil, fmt.Errorf("open the device: %w", err)
	}
	var more []nic.Rail
	for _, name := range rails {
		r, err := openWire(name, lo)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the device: further interface %s: %w", name, err), closeAll(w, more))
		}
		more = append(more, nic.Rail{Interface: name, Dataplane: r})
	}
	if o.PreCredit {
		w.AnnounceCredit()
		if o.CreditEpoch, err = w.CreditEpoch(); err != nil {
			return nil, errors.Join(fmt.Errorf("open the device: %w", err), closeAll(w, more))
		}
	}
	o.Interface = ifname
	d, err := nic.Open(w, o, more...)
	if err != nil {
		return nil, fmt.Errorf("open the device on %s: %w", ifname, err)
	}
	return d, nil
}

// openWire takes the engine's place on an interface.
func openWire(ifname string, lo loader.Options) (*wire, error) {
	// The sockets are bound by the name, so the interface of that name must be the one that was
	// attached.
	att, err := loader.OpenHere(ifname, lo)
	if err != nil {
		return nil, err
	}
	if n, known := xsk.Queues(ifname); known && n > int(att.Maps.Xsks.MaxEntries()) {
		defer att.Close()
		return nil, fmt.Errorf("%s has %d receive queues, and an engine has sockets for %d at most: `ethtool -L %[1]s` sets fewer", ifname, n, att.Maps.Xsks.MaxEntries())
	}
	lease, err := att.TakeEngineLease()
	if err != nil {
		att.Close()
		return nil, err
	}
	return &wire{att: att, EngineLease: lease}, nil
}

// closeAll closes what openWire has opened.
func closeAll(w *wire, rails []nic.Rail) error {
	errs := []error{w.Close()}
	for _, r := range rails {
		errs = append(errs, r.Dataplane.Close())
	}
	return errors.Join(errs...)
}

// wire implements nic.Dataplane by the engine's lease.
type wire struct {
	*loader.EngineLease
	att   *loader.Attachment
	slots []bpf.EngineSlot
}

func (w *wire) Close() error {
	err := w.EngineLease.Close()
	w.att.Close()
	return err
}

// RuntimeConfig implements nic.Dataplane.
func (w *wire) RuntimeConfig() nic.RuntimeConfig {
	c := w.Config()
	mono := loader.Monotonic()
	return nic.RuntimeConfig{
		InitialRate: atomic.LoadUint64(&c.InitialRateBps), Burst: qp.Time(c.BurstNs),
		LinkRate:    atomic.LoadUint64(&c.LinkRateBps),
		Paced:       c.Pacer != bpf.PacerNone && !heartbeatStopped(c, mono),
		ClockOffset: int64(w.Clock().Offset()),
	}
}

// heartbeatStopped reports whether the heartbeat has timed out, as bpf/lib/pace.h does.
// Without an agent no rate changes, and pacing by the last ones could block for ever.
func heartbeatStopped(c *bpf.Config, mono uint64) bool {
	return c.HeartbeatTimeoutNs != 0 &&
		int64(mono-atomic.LoadUint64(&c.HeartbeatNs)) > int64(c.HeartbeatTimeoutNs)
}

// Sync implements nic.Dataplane.
func (w *wire) Sync(dests []nic.DestSync) (int, error) {
	w.slots = slices.Grow(w.slots[:0], len(dests))[:len(dests)]
	for i := range dests {
		d, s := &dests[i], &w.slots[i]
		*s = bpf.EngineSlot{
			Key: bpf.KeyOf(d.Addr), TxPackets: d.Packets, TxBytes: d.Bytes, TxUnstamped: d.Unstamped,
			PsnRegressions: d.Repeated, Lost: d.Lost, Paced: d.Waited, PacedNs: uint64(d.WaitedTime), RateBps: d.Rate,
			RttNs: uint64(d.RTT), RttSentNs: d.RTTSent, Limit: uint8(d.Limit),
			TxToken: bpf.OwnWord(d.Src),
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
		if d.CMAnswers {
			s.Flags |= bpf.EngineCMAnswers
		}
		if d.Ask {
			s.Flags |= bpf.EngineAsks
		}
	}
	reported, err := w.EngineLease.Sync(w.slots)
	for i := range reported {
		d, s := &dests[i], &w.slots[i]
		d.Known, d.Rate, d.Window = s.Found&bpf.Found != 0, s.RateBps, uint64(s.WindowBytes)
		d.Proven, d.Bare, d.Room = s.Found&bpf.FoundProven != 0, s.Found&bpf.FoundBare != 0, int(s.Found&bpf.FoundRoom)
		d.Answers = uint8(s.Found & bpf.FoundAnswers)
		d.Stamps, d.SACK = s.Caps&bpf.CapStamp != 0, s.Caps&bpf.CapSACK != 0
		d.Credit, d.OOO = s.Caps&bpf.CapCredit != 0, s.Caps&bpf.CapOOO != 0
		d.Token, d.NoToken = s.TxToken, s.TxToken == 0
	}
	return reported, err
}

// SteerMAD implements nic.Dataplane.
func (w *wire) SteerMAD(s cm.Steer) error {
	switch k := s.Key.(type) {
	case cm.KeyService:
		return w.SteerService(uint64(k.Service), !s.Off)
	case cm.KeyRequest:
		r := bpf.CmRequest{Peer: bpf.KeyOf(k.Addr), Guid: k.GUID, Id: k.ID}
		if k.SIDR {
			r.Sidr = 1
		}
		return w.SteerRequest(r, !s.Off)
	case cm.KeyRest:
		return w.SteerRequest(bpf.CmRequest{Peer: bpf.KeyOf(k.Local), Sidr: bpf.CmRest}, !s.Off)
	case cm.KeyID:
		v := bpf.CmId{Peer: bpf.KeyOf(k.Addr), Remote: k.Remote}
		if k.SIDR {
			v.Sidr = 1
		}
		return w.SteerID(uint32(k.ID), v, !s.Off)
	}
	return fmt.Errorf("steer by %T: unknown", s.Key)
}

var _ nic.Dataplane = (*wire)(nil)
