// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"bytes"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Shorthands for correct requests.
func write(op rocev2.Opcode, va uint64, dmaLen uint32, n int) dg {
	return dg{Opcode: op, VA: va, RKey: dataKey, DMALen: dmaLen, Payload: pattern(9, n)}
}

func read(va uint64, n uint32) dg {
	return dg{Opcode: rocev2.RCReadRequest, VA: va, RKey: dataKey, DMALen: n}
}

func fetchAdd(va, add uint64) dg {
	return dg{Opcode: rocev2.RCFetchAdd, VA: va, RKey: dataKey, SwapAdd: add}
}

func send(op rocev2.Opcode, n int) dg { return dg{Opcode: op, Payload: pattern(5, n)} }

const wf, wm, wl, wo = rocev2.RCWriteFirst, rocev2.RCWriteMiddle, rocev2.RCWriteLast, rocev2.RCWriteOnly
const sf, sm, sl, so = rocev2.RCSendFirst, rocev2.RCSendMiddle, rocev2.RCSendLast, rocev2.RCSendOnly

// noRight removes rights from the data region, and qpRights sets those of the queue pair.
func noRight(a verbs.Access) func(*target) {
	return func(x *target) { x.m.regions[dataKey].rights &^= a }
}

func qpRights(a verbs.Access) func(*target) { return func(x *target) { x.q.attr.Access = a } }

// Errors that end a connection: the last packet of each line. The NAK has its PSN and is
// still sent. The packet wrote nothing. The receive in progress completes with the status,
// the others are flushed, and nothing is sent afterwards.
func TestRefusals(t *testing.T) {
	const inv, acc, oper = rocev2.NAKInvalidRequest, rocev2.NAKRemoteAccess, rocev2.NAKRemoteOp
	const end = dataBase + 1<<16
	unaligned := dg{Opcode: rocev2.RCCompareSwap, VA: dataBase + 4, RKey: dataKey}
	wrongKey := write(wo, dataBase, 8, 8)
	wrongKey.RKey = 0xBAD
	for _, c := range []struct {
		name   string
		setup  func(*target)
		in     []dg
		nak    rocev2.NAKCode
		status verbs.Status // status of the first receive; WRFlushed if it was not touched
		event  verbs.EventType
	}{
		// The order of opcodes (IBTA 9.7.4.1).
		{"MIDDLE first", nil, []dg{send(sm, 256)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"LAST first", nil, []dg{write(wl, 0, 0, 8)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"ONLY within", nil, []dg{send(sf, 256), send(so, 8)}, inv, verbs.StatusRemoteInvalidRequest, 0},
		{"FIRST within", nil, []dg{write(wf, dataBase, 600, 256), write(wf, dataBase, 600, 256)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"READ within", nil, []dg{send(sf, 256), read(dataBase, 8)}, inv, verbs.StatusRemoteInvalidRequest, 0},
		{"SEND goes on as WRITE", nil, []dg{send(sf, 256), write(wl, 0, 0, 8)}, inv, verbs.StatusRemoteInvalidRequest, 0},
		{"WRITE goes on as SEND", nil, []dg{write(wf, dataBase, 600, 256), send(sm, 256)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"FLUSH, which we do not have", nil, []dg{{Opcode: rocev2.RCFlush, VA: dataBase, RKey: dataKey}}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"ATOMIC WRITE, which we do not have", nil, []dg{{Opcode: rocev2.RCAtomicWrite, VA: dataBase, RKey: dataKey, Payload: make([]byte, 8)}}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},

		// Lengths (9.7.4.1).
		{"FIRST too short", nil, []dg{send(sf, 255)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"FIRST too long", nil, []dg{send(sf, 260)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"MIDDLE too short", nil, []dg{send(sf, 256), send(sm, 252)}, inv, verbs.StatusRemoteInvalidRequest, 0},
		{"LAST empty", nil, []dg{send(sf, 256), send(sl, 0)}, inv, verbs.StatusRemoteInvalidRequest, 0},
		{"LAST too long", nil, []dg{send(sf, 256), send(sl, 260)}, inv, verbs.StatusRemoteInvalidRequest, 0},
		{"ONLY too long", nil, []dg{write(wo, dataBase, 260, 260)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"DMALen more than ONLY", nil, []dg{write(wo, dataBase, 9, 8)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"DMALen less than ONLY", nil, []dg{write(wo, dataBase, 7, 8)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"DMALen 0 with data", nil, []dg{write(wo, dataBase, 0, 8)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"DMALen fits into FIRST", nil, []dg{write(wf, dataBase, 256, 256)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"DMALen ends at MIDDLE", nil, []dg{write(wf, dataBase, 512, 256), write(wm, 0, 0, 256)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"DMALen goes beyond LAST", nil, []dg{write(wf, dataBase, 512, 256), write(wl, 0, 0, 255)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"DMALen stops short of LAST", nil, []dg{write(wf, dataBase, 300, 256), write(wl, 0, 0, 45)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"WRITE over 2^31", nil, []dg{write(wf, dataBase, 1<<31+1, 256)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"READ over 2^31", nil, []dg{read(dataBase, 1<<31+1)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"SEND longer than the receive", nil, []dg{send(sf, 256), send(sm, 256), send(sl, 1)}, inv, verbs.StatusLocalLength, 0},

		// Rights of the queue pair, and resources.
		{"WRITE not allowed", qpRights(verbs.AccessRemoteRead | verbs.AccessRemoteAtomic), []dg{write(wo, dataBase, 8, 8)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"READ not allowed", qpRights(verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic), []dg{read(dataBase, 8)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"ATOMIC not allowed", qpRights(verbs.AccessRemoteWrite | verbs.AccessRemoteRead), []dg{fetchAdd(dataBase, 1)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"no READ resources", func(x *target) { x.q.attr.MaxDestRdAtomic = 0 }, []dg{read(dataBase, 8)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"no ATOMIC resources", func(x *target) { x.q.attr.MaxDestRdAtomic = 0 }, []dg{fetchAdd(dataBase, 1)}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},
		{"ATOMIC unaligned", nil, []dg{unaligned}, inv, verbs.StatusWRFlushed, verbs.EventQPRequest},

		// Keys, ranges and rights of the region (9.7.4.1).
		{"WRITE wrong key", nil, []dg{wrongKey}, acc, verbs.StatusWRFlushed, verbs.EventQPAccess},
		{"WRITE below", nil, []dg{write(wo, dataBase-1, 8, 8)}, acc, verbs.StatusWRFlushed, verbs.EventQPAccess},
		{"WRITE beyond", nil, []dg{write(wo, end-7, 8, 8)}, acc, verbs.StatusWRFlushed, verbs.EventQPAccess},
		{"WRITE whose end is beyond, at once", nil, []dg{write(wf, end-256, 512, 256)}, acc, verbs.StatusWRFlushed, verbs.EventQPAccess},
		{"WRITE that wraps", nil, []dg{write(wo, 1<<64-4, 8, 8)}, acc, verbs.StatusWRFlushed, verbs.EventQPAccess},
		{"WRITE right missing", noRight(verbs.AccessRemoteWrite), []dg{write(wo, dataBase, 8, 8)}, acc, verbs.StatusWRFlushed, verbs.EventQPAccess},
		{"READ beyond", nil, []dg{read(end-8, 9)}, acc, verbs.StatusWRFlushed, verbs.EventQPAccess},
		{"READ right missing", noRight(verbs.AccessRemoteRead), []dg{read(dataBase, 8)}, acc, verbs.StatusWRFlushed, verbs.EventQPAccess},
		{"ATOMIC beyond", nil, []dg{fetchAdd(end, 1)}, acc, verbs.StatusWRFlushed, verbs.EventQPAccess},
		{"ATOMIC right missing", noRight(verbs.AccessRemoteAtomic), []dg{fetchAdd(dataBase, 1)}, acc, verbs.StatusWRFlushed, verbs.EventQPAccess},
		{"invalidate an unknown key", nil, []dg{{Opcode: rocev2.RCSendOnlyInv, RKey: 0xBAD}}, acc, verbs.StatusRemoteAccess, 0},

		// Errors of the responder (9.9.3 class A).
		{"memory fails", func(x *target) { x.m.broken = true }, []dg{write(wo, dataBase, 8, 8)}, oper, verbs.StatusWRFlushed, verbs.EventQPFatal},
		{"receive with a wrong key", func(x *target) { delete(x.m.regions, bufKey) }, []dg{send(so, 8)}, oper, verbs.StatusLocalProtection, 0},
		{"receive without write right", func(x *target) { x.m.regions[bufKey].rights = 0 }, []dg{send(so, 8)}, oper, verbs.StatusLocalProtection, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newTarget(t, verbs.RC)
			x.postRecv(1, 2, 512)
			if c.setup != nil {
				c.setup(x)
			}
			last := len(c.in) - 1
			for _, d := range c.in[:last] {
				x.next(d)
			}
			x.events = nil
			before := bytes.Clone(x.m.regions[dataKey].data)
			x.next(c.in[last])

			if x.q.State() != verbs.StateErr {
				t.Fatalf("now in %s, want ERR", x.q.State())
			}
			if !bytes.Equal(before, x.m.regions[dataKey].data) {
				t.Error("the refused packet wrote something")
			}
			x.next(write(wo, dataBase, 8, 8)) // too late
			x.wantOut(nakOf(last, 0, c.nak))
			x.wantOut()
			x.wantDone(verbs.Completion{WRID: 1, Status: c.status, Op: verbs.OpRecv, Solicited: true},
				verbs.Completion{WRID: 2, Status: verbs.StatusWRFlushed, Op: verbs.OpRecv, Solicited: true})
			if c.event == 0 {
				x.wantEvents()
			} else {
				x.wantEvents(c.event)
			}
			var naks uint64
			switch c.nak {
			case inv:
				naks = x.count.InvalidRequest
			case acc:
				naks = x.count.RemoteAccess
			case oper:
				naks = x.count.RemoteOperation
			}
			if naks != 1 || x.count.Ignored != 1 {
				t.Errorf("counted %d NAKs and %d ignored, want 1 and 1", naks, x.count.Ignored)
			}
			if !bytes.Equal(before, x.m.regions[dataKey].data) {
				t.Error("a packet in ERR wrote something")
			}
		})
	}
}

// Pads and trailing bytes that no correct sender makes, and opcodes without an entry in the
// table.
func TestRefuseDamagedPackets(t *testing.T) {
	for _, c := range []struct {
		name   string
		d      dg
		change func(bth rocev2.BTH)
	}{
		{"pad on a full word", write(wo, dataBase, 8, 8), func(h rocev2.BTH) { h.SetPadCount(1) }},
		{"pad missing", write(wo, dataBase, 7, 7), func(h rocev2.BTH) { h.SetPadCount(0) }},
		{"payload behind a READ", write(wo, dataBase, 8, 8), func(h rocev2.BTH) { h.SetOpcode(rocev2.RCReadRequest) }},
		{"no multiple of 4", write(wo, dataBase, 7, 8), func(rocev2.BTH) {}},
		{"unknown opcode 0x15", send(so, 8), func(h rocev2.BTH) { h.SetOpcode(0x15) }},
		{"unknown opcode 0x1f", send(so, 0), func(h rocev2.BTH) { h.SetOpcode(0x1F) }},
	} {
		x := newTarget(t, verbs.RC)
		c.d.PSN = firstPSN
		p := build(t, c.d)
		c.change(p.BTH())
		if strings.HasPrefix(c.name, "no multiple") {
			p = shorten(t, p)
		}
		p, err := rocev2.ParseIP(p.Frame())
		if err != nil {
			t.Fatal(err)
		}
		x.q.Receive(x.now, &p)
		x.wantOut(nakOf(0, 0, rocev2.NAKInvalidRequest))
		if x.count.Malformed != 1 {
			t.Errorf("%s: counted %d malformed, want 1", c.name, x.count.Malformed)
		}
	}
}
