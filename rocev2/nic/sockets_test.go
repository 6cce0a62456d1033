// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/sched"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// twoSockets is an engine without threads that has two real sockets, of 64 frames
// each, and a handle for a destination behind either. Nothing leaves: nobody kicks.
func twoSockets(t *testing.T) (e *engine, to [2]*AH) {
	t.Helper()
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	ends, err := topo.Cable(top.Host(1), top.Host(2), topo.CableSpec{Name: "cable0", Queues: 2})
	if err != nil {
		t.Fatal(err)
	}
	e = bench(t)
	e.socks = nil
	e.destTimers.Advance(1, nil)
	nl := ends[0].Host.Netlink()
	link, err := nl.LinkByIndex(ends[0].Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := nl.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 77, 0, 1), Mask: net.CIDRMask(24, 32)}}); err != nil {
		t.Fatal(err)
	}
	err = ends[0].Host.Do(func() error {
		set, err := xsk.OpenAll(xsk.Config{Ifindex: ends[0].Index, TxFrames: 64, RxFrames: 128})
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = set.Close() })
		for _, s := range set {
			e.socks = append(e.socks, &sock{xsk: s})
		}
		routes, err := route.Open("cable0", route.Options{})
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = routes.Close() })
		for i := range to {
			dst := netip.AddrFrom4([4]byte{10, 77, 0, byte(10 + i)})
			err := nl.NeighSet(&netlink.Neigh{LinkIndex: ends[0].Index, State: netlink.NUD_PERMANENT, IP: dst.AsSlice(), HardwareAddr: ends[1].MAC})
			if err != nil {
				return err
			}
			path, err := routes.Resolve(dst)
			if err != nil {
				return err
			}
			to[i] = &AH{dev: e.dev, address: address{path: path, dest: e.destination(path)}}
			to[i].dest.sock = e.socks[i]
			to[i].dest.waitsUntil = 0 // not for a token
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	e.senders = e.socks
	return e, to
}

// datagrams is a queue pair of UD in RTS.
func datagrams(t *testing.T, e *engine) *QP {
	t.Helper()
	x := &QP{dev: e.dev, typ: verbs.UD, send: &CQ{dev: e.dev}, recv: &CQ{dev: e.dev}}
	conf := qp.Config{Type: verbs.UD, Count: &e.qpCount, MaxSend: 128, MaxInline: 16}
	x.timer.Owner = x
	if err := e.addQP(x, conf); err != nil {
		t.Fatal(err)
	}
	a := verbs.Attr{PMTU: rocev2.PMTU1024}
	for _, step := range []struct {
		to   verbs.State
		mask verbs.AttrMask
	}{{verbs.StateInit, verbs.MaskQKey}, {verbs.StateRTR, verbs.MaskPMTU}, {verbs.StateRTS, verbs.MaskSQPSN}} {
		a.State = step.to
		if err := x.q.Modify(a, verbs.MaskState|step.mask); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

func (x *QP) postTo(t *testing.T, a *AH) {
	t.Helper()
	if err := x.q.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Inline, Data: []byte("datagram"), AH: a, RemoteQPN: 5, RemoteQKey: 7}); err != nil {
		t.Fatal(err)
	}
}

// A socket whose frames the kernel all has holds up only who sends to its
// destinations.
func TestOneSocketFull(t *testing.T) {
	e, to := twoSockets(t)
	for s := to[0].dest.sock.xsk; s.Frame() != nil; {
		s.Push(60)
	}
	blocked, free := datagrams(t, e), datagrams(t, e)
	blocked.postTo(t, to[0])
	for range 3 {
		free.postTo(t, to[1])
	}
	for range 2 {
		blocked.postTo(t, to[1]) // behind the first one, which must leave before
	}
	for _, x := range []*QP{blocked, free} {
		e.markDirty(x)
	}
	e.flushDirty()
	if sent := e.transmit(); sent != 3 || free.q.SendQueued() != 0 {
		t.Errorf("%d packets left for the destination whose socket has room, want 3", sent)
	}
	if blocked.q.SendQueued() != 3 || !e.txFramesExhausted {
		t.Errorf("%d messages of the other still wait, want 3; blocked %v", blocked.q.SendQueued(), e.txFramesExhausted)
	}
	to[0].dest.sock = e.socks[1] // as if it had room again
	if sent := e.transmit(); sent != 3 || blocked.q.SendQueued() != 0 {
		t.Errorf("then %d packets left, want 3", sent)
	}
}

// A datagram waits for the pacer of its own destination, not for that of the one
// before it.
func TestDatagramWaitsForItsOwn(t *testing.T) {
	e, to := twoSockets(t)
	e.config.Paced, e.now = true, 1e9
	to[0].dest.pacer = sched.NewBucket(1e6)
	to[0].dest.pacer.Consume(int64(e.now), 0, 0) // empty now: its packet is followed by a pause
	x := datagrams(t, e)
	x.postTo(t, to[0])
	x.postTo(t, to[1])
	x.postTo(t, to[0])
	x.postTo(t, to[1])
	e.markDirty(x)
	e.flushDirty()
	if sent := e.transmit(); sent != 2 || to[0].dest.paceBlocked == 0 || to[1].dest.paceBlocked != 0 {
		t.Errorf("%d packets left, want 2: the third goes where the first one went; pace-blocked: %v, %v", sent, to[0].dest.paceBlocked, to[1].dest.paceBlocked)
	}
}
