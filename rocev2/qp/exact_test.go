// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// exactly delivers a packet by ReceiveExact.
func exactly(t *testing.T, q *QP, now Time, d rocev2.Datagram) {
	t.Helper()
	p := build(t, d)
	q.ReceiveExact(now, &p)
}

// A request ahead of the expected PSN is not buffered. The peer gets a NAK if it knows nothing better.
func TestExactRequest(t *testing.T) {
	for _, sack := range []bool{false, true} {
		x := newTarget(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.Selective = sack })
		put := func(n int) {
			w := write(wo, dataBase+uint64(n)*4, 4, 4)
			w.PSN, w.AckReq, w.Payload[0] = psn(n), true, byte(n+1)
			exactly(t, x.q, x.now, w)
		}
		put(0)
		x.wantOut(ackOf(0, 1))
		put(2)
		if x.q.rsp.reorder != nil {
			t.Error("a packet was buffered that may be forged")
		}
		if sack {
			x.wantOut()
		} else {
			x.wantOut(nakOf(1, 1, rocev2.NAKPSNSequence))
		}
		put(1)
		x.wantOut(ackOf(1, 2))
		put(0) // its ACK may have been lost
		x.wantOut(ackOf(1, 2))
		if got := x.m.regions[dataKey].data; got[0] != 1 || got[4] != 2 || got[8] == 3 {
			t.Errorf("memory has %d, %d, %d", got[0], got[4], got[8])
		}
	}
}

// A READ response with a later PSN is not stored, and has the missing ones requested again.
func TestExactReadResponse(t *testing.T) {
	const n = 6 * 256
	x := newSource(t, verbs.RC)
	x.post(verbs.OpRead, n, 0)
	x.wantSent("0A")
	data := pattern(9, n)
	respond := func(i int, forged bool) {
		d := rocev2.Datagram{Opcode: readOpcode(i == 0, i == 5), PSN: psn(i), Syndrome: noCredits, Payload: bytes.Clone(data[i*256 : (i+1)*256])}
		if forged {
			d.Payload[3] ^= 0xff
		}
		exactly(t, x.q, x.now, d)
	}
	respond(0, false)
	for _, d := range []rocev2.Datagram{
		{Opcode: rocev2.RCReadResponseMiddle, PSN: psn(2), Payload: data[:100]}, // another length
		{Opcode: rocev2.RCAtomicAck, PSN: psn(3), Syndrome: noCredits},
		{Opcode: rocev2.RCReadResponseLast, PSN: psn(5), Syndrome: rocev2.SyndromeNAK(rocev2.NAKRemoteOp), Payload: data[:256]},
	} {
		exactly(t, x.q, x.now, d)
		x.wantState(verbs.StateRTS)
	}
	respond(4, true)
	respond(5, true)
	x.wantSent("1A!")
	x.wantDone(0)
	for i := 1; i < 6; i++ {
		respond(i, false)
	}
	x.wantDone(0, verbs.StatusSuccess)
	if !bytes.Equal(x.m.regions[dataKey].data[:n], data) {
		t.Error("forged data was stored")
	}
}

// NAKs and SACKs of packets that are not outstanding change nothing.
func TestExactAcknowledgement(t *testing.T) {
	for name, d := range map[string]rocev2.Datagram{
		"NAK of an acknowledged packet":  {Opcode: rocev2.RCAck, PSN: psn(1), Syndrome: rocev2.SyndromeNAK(rocev2.NAKRemoteOp)},
		"NAK of a packet not sent":       {Opcode: rocev2.RCAck, PSN: psn(9), Syndrome: rocev2.SyndromeNAK(rocev2.NAKRemoteOp)},
		"ACK of a packet not sent":       {Opcode: rocev2.RCAck, PSN: psn(9), Syndrome: noCredits},
		"SACK from long before":          {Opcode: rocev2.OpSACK, PSN: psn(0), Syndrome: noCredits, SACKLo: 1 << 4},
		"SACK beyond what has been sent": {Opcode: rocev2.OpSACK, PSN: psn(9), Syndrome: noCredits, SACKLo: 1},
	} {
		x := newSource(t, verbs.RC, selective)
		for range 4 {
			x.post(verbs.OpWrite, 8, verbs.Signaled)
		}
		x.drains()
		x.ack(1)
		x.wantDone(0, verbs.StatusSuccess, verbs.StatusSuccess)
		exactly(t, x.q, x.now, d)
		x.wantDone(0)
		x.wantState(verbs.StateRTS)
		if x.q.req.scoreboard != nil {
			t.Errorf("%s: it counts as a report of losses", name)
		}
	}
}

// Connections whose packets may all be forged survive losses, as with rxe and with a softroce peer.
func TestExactWithLoss(t *testing.T) {
	for _, c := range []struct {
		op   verbs.Op
		sack bool
	}{{verbs.OpWrite, false}, {verbs.OpWrite, true}, {verbs.OpRead, false}, {verbs.OpRead, true}} {
		t.Run(fmt.Sprintf("%v/selective=%v", c.op, c.sack), func(t *testing.T) {
			p := newPair(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.Selective = c.sack })
			p.exact = true
			r := rand.New(rand.NewPCG(7, uint64(c.op)))
			p.drop = func(int, *rocev2.Packet) bool { return r.IntN(50) == 0 }
			fillRandom(r, p.data(0)[:1<<20])
			fillRandom(r, p.data(1)[1<<20:2<<20])
			const n, size = 40, 16 << 10
			for i := range n {
				at := dataBase + uint64(i*size)
				if c.op == verbs.OpRead {
					at += 1 << 20
				}
				p.post(&verbs.SendWR{ID: uint64(i), Op: c.op, Flags: verbs.Signaled, RemoteAddr: at, RKey: dataKey,
					SGL: []verbs.SGE{{Addr: at, Len: size, LKey: dataKey}}})
			}
			p.run(func() bool { return len(p.side[0].cq.got) == n })
			p.wantAll(n)
			if !bytes.Equal(p.data(0)[:n*size], p.data(1)[:n*size]) && c.op == verbs.OpWrite ||
				c.op == verbs.OpRead && !bytes.Equal(p.data(0)[1<<20:1<<20+n*size], p.data(1)[1<<20:1<<20+n*size]) {
				t.Error("the data differs")
			}
			if p.side[0].count.Buffered+p.side[1].count.Buffered != 0 {
				t.Error("packets were buffered")
			}
		})
	}
}
