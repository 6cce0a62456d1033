// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// badWire loses, duplicates and permutes packets in both directions.
var badWire = wiretest.Faults{Loss: 0.03, Duplicate: 0.05, Reorder: 0.5, ReorderBy: 100 * wiretest.Microsecond}

// Message ids and PSNs wrap, also at the same time.
func TestWrap(t *testing.T) {
	for i, first := range []uint32{1<<32 - 1, 1<<32 - 300, 1<<31 - 100} {
		cfg := config()
		cfg.SendPSN, cfg.RecvPSN = 1<<24-500, 1<<24-1
		ops := messages(uint64(i), 1000, 3000)
		w := newWorld(uint64(i), cfg, 2, 16, ops)
		w.app.QP.SetNextID(first)
		w.faults(badWire)
		w.run(t)
		if w.app.Completed != len(ops) {
			t.Errorf("first id %d: %d of %d messages", first, w.app.Completed, len(ops))
		}
	}
}

// The least and the largest windows, and tables, work.
func TestLimits(t *testing.T) {
	for _, c := range []ooo.Config{
		{Window: ooo.MinWindow, PeerWindow: 1},
		{Window: ooo.MinWindow, InFlight: 1, Paths: 1},
		{Window: ooo.MinWindow, Messages: 1, Responses: 1},
		{Window: ooo.MaxWindow, Messages: ooo.MaxMessages, Paths: ooo.MaxPaths},
		{Window: 128, PeerWindow: 100, InFlight: 77, Paths: 3},
	} {
		cfg := config()
		cfg.Window, cfg.PeerWindow, cfg.InFlight, cfg.Messages, cfg.Paths, cfg.Responses = c.Window, c.PeerWindow, c.InFlight, c.Messages, c.Paths, c.Responses
		cfg.Tries = 64 // with one response at a time, many are lost
		ops := messages(7, 600, 8000)
		slots := min(64, max(1, cfg.Messages))
		w := newWorld(7, cfg, 2, slots, ops)
		w.faults(badWire)
		w.run(t)
		if w.app.Completed != len(ops) {
			t.Errorf("%+v: %d of %d messages", c, w.app.Completed, len(ops))
		}
	}
}

// A packet with more data than the target has agreed to is refused.
func TestPayloadTooLong(t *testing.T) {
	for _, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead} {
		w := wiretest.New(1)
		nodes := w.NewOOOPair(1, 1e9, wiretest.Microsecond)
		cfg := config()
		var got []verbs.Status
		cfg.QPN, cfg.PeerQPN, cfg.Payload = 1, 2, 1392
		cfg.Complete = func(c verbs.Completion) { got = append(got, c.Status) }
		q := nodes[0].Create(cfg)
		cfg.QPN, cfg.PeerQPN, cfg.Payload, cfg.Complete = 2, 1, 1388, nil
		nodes[1].Create(cfg)
		from := nodes[0].Mem.Register(0, 4096, verbs.AccessLocalWrite)
		to := nodes[1].Mem.Register(0, 4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
		err := q.Post(&ooo.Request{Op: op, Local: verbs.SGE{Addr: from.Addr, Len: 1392, LKey: from.Key}, RemoteAddr: to.Addr, RKey: to.Key})
		if err != nil {
			t.Fatal(err)
		}
		nodes[0].Serve()
		if err := w.Run(0); err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0] != verbs.StatusRemoteInvalidRequest {
			t.Errorf("%v: %v", op, got)
		}
	}
}

// Packets of Config.Payload bytes carry all data.
func TestPayload(t *testing.T) {
	for _, payload := range []int{256, 260, 1392, 4096} {
		cfg := config()
		cfg.PMTU, cfg.Payload = rocev2.PMTU256, payload
		ops := messages(uint64(payload), 400, 10_000)
		w := newWorld(1, cfg, 1, 16, ops)
		w.faults(badWire)
		longest := 0
		w.nodes[0].Links[0].Tap = func(p *rocev2.Packet) { longest = max(longest, len(p.Payload())) }
		w.run(t)
		a, b := &w.nodes[0].Count, &w.nodes[1].Count
		reads, writes := dataPackets(ops, payload)
		if longest != payload || a.ReadPlaced != reads || b.Placed != writes {
			t.Errorf("payload %d: at most %d bytes in a packet; READ %d, WRITE %d packets, want %d and %d", payload, longest, a.ReadPlaced, b.Placed, reads, writes)
		}
	}
}

// PayloadForMTU is the largest payload whose packet fits.
func TestPayloadForMTU(t *testing.T) {
	for _, mtu := range []int{400, 1280, 1500, 1501, 2048, 4000, 9000} {
		for _, ipv6 := range []bool{false, true} {
			payload, ok := ooo.PayloadForMTU(mtu, ipv6)
			if !ok {
				t.Errorf("MTU %d: %d", mtu, payload)
				continue
			}
			at, above := frame(t, payload, ipv6), frame(t, payload+4, ipv6)
			if at > mtu || above <= mtu && payload != ooo.MaxPayload {
				t.Errorf("MTU %d, IPv6 %v: payload %d has %d bytes of IP, 4 more have %d", mtu, ipv6, payload, at, above)
			}
		}
	}
	if payload, ok := ooo.PayloadForMTU(300, false); ok {
		t.Errorf("MTU 300: %d", payload)
	}
	if payload, _ := ooo.PayloadForMTU(1500, false); payload != 1392 {
		t.Errorf("MTU 1500: %d, and the documentation says 1392", payload)
	}
}

func ip6(last byte) netip.Addr { return netip.AddrFrom16([16]byte{0xfd, 15: last}) }

// frame returns the length of an OWRITE with a stamp, in bytes of IP.
func frame(t *testing.T, payload int, ipv6 bool) int {
	w := wiretest.New(1)
	nodes := w.NewOOOPair(1, 1e9, wiretest.Microsecond)
	o := rocev2.Datagram{
		Src: nodes[0].Addr, Dst: nodes[1].Addr, Opcode: rocev2.OpOWrite, Payload: make([]byte, payload),
		OOO: &rocev2.OOOFields{}, Stamp: &rocev2.Stamp{Flags: rocev2.StampT1},
	}
	if ipv6 {
		o.Src, o.Dst = ip6(1), ip6(2)
	}
	b, err := o.AppendTo(nil)
	if err != nil {
		t.Fatal(fmt.Errorf("payload %d: %w", payload, err))
	}
	return len(b)
}
