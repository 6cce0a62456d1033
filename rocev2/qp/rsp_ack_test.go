// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The bytes of an ACK, from the IP header to the ICRC.
func TestAckBytes(t *testing.T) {
	x := newTarget(t, verbs.RC)
	w := write(wo, dataBase, 4, 4)
	w.AckReq = true
	x.next(w)
	x.wantOut(ackOf(0, 1))
	const want = "" +
		"4500003000004000 4011b6b9 c0000201 c0000202" + // IPv4, 48 bytes, DF, TTL 64, UDP
		"c242 12b7 001c 0000" + // UDP from the port of 0x11 x 0x22 to 4791
		"11 00 ffff 00 000022 00 fffffe" + // BTH: ACK, P_Key, queue pair, PSN
		"1f 000001" // AETH: ACK without credits, MSN 1
	got := hex.EncodeToString(x.frame[:44])
	if plain := clean(want); got != plain {
		t.Errorf("ACK:\n got %s\nwant %s", got, plain)
	}
}

func clean(s string) string {
	return string(slices.DeleteFunc([]byte(s), func(c byte) bool { return c == ' ' }))
}

// One ACK for many packets: at once with AckReq, or after 64 packets, or after ackDelay.
func TestAckCoalescing(t *testing.T) {
	x := newTarget(t, verbs.RC)
	for range 10 {
		w := write(wo, dataBase, 4, 4)
		w.AckReq = true
		x.next(w)
	}
	x.wantOut(ackOf(9, 10))

	for range 63 {
		x.next(write(wo, dataBase, 4, 4))
		x.wantOut()
	}
	x.next(write(wo, dataBase, 4, 4))
	x.wantOut(ackOf(73, 74))
	if d := x.q.Deadline(); d != 0 {
		t.Errorf("a deadline at %d with nothing to say", d)
	}

	x.next(write(wo, dataBase, 4, 4))
	due := x.now + ackDelay
	if d := x.q.Deadline(); d != due {
		t.Errorf("deadline %d, want %d", d, due)
	}
	x.now += 100
	x.next(write(wo, dataBase, 4, 4)) // does not postpone it
	x.q.Expire(due - 1)
	x.wantOut()
	x.q.Expire(due)
	x.wantOut(ackOf(75, 76))
	x.wantOut()
}

// The response to a READ does not acknowledge the WRITE behind it, which no packet has requested an ACK for: its ACK comes
// after ackDelay. Not so the response that comes after the WRITE.
func TestDelayedAckBehindRead(t *testing.T) {
	x := newTarget(t, verbs.RC)
	x.next(read(dataBase, 3*256))
	x.next(write(wo, dataBase+1024, 4, 4))
	due := x.now + ackDelay
	if got := x.out(); len(got) != 3 {
		t.Fatalf("%d responses, want 3", len(got))
	}
	if d := x.q.Deadline(); d != due {
		t.Fatalf("deadline %d, want %d", d, due)
	}
	x.q.Expire(due)
	x.wantOut(ackOf(3, 2))
	x.next(write(wo, dataBase+1024, 4, 4))
	x.next(read(dataBase, 256))
	if got := x.out(); len(got) != 1 || x.q.Deadline() != 0 {
		t.Errorf("%d responses, want 1; deadline %d", len(got), x.q.Deadline())
	}
}

// An ACK never overtakes the response of an earlier READ or ATOMIC: the requester would
// take that for a loss.
func TestAnswersInOrder(t *testing.T) {
	x := newTarget(t, verbs.RC)
	asked := func(d dg) dg { d.AckReq = true; return d }
	x.next(asked(write(wo, dataBase, 4, 4)))
	x.next(read(dataBase, 257))
	x.next(asked(write(wo, dataBase+512, 4, 4)))
	x.next(fetchAdd(dataBase+512, 0))
	x.next(asked(write(wo, dataBase+512, 4, 4)))
	data := string(x.m.regions[dataKey].data[:257])
	word := binary.NativeEndian.Uint64(x.m.regions[dataKey].data[512:])

	ask := func() (said, bool) {
		if !x.q.NextAck(x.now, &x.answer) {
			return said{}, false
		}
		return x.sent()
	}
	if got, _ := ask(); got != ackOf(0, 1) {
		t.Fatalf("first %+v, want the ACK of the first WRITE", got)
	}
	for i, op := range []rocev2.Opcode{rocev2.RCReadResponseFirst, rocev2.RCReadResponseLast} {
		if got, ok := ask(); ok {
			t.Fatalf("%+v before response %d of the READ", got, i)
		}
		if !x.q.NextData(x.now, &x.answer) {
			t.Fatalf("no response %d", i)
		}
		want := said{Op: op, PSN: psn(1 + i), Syndrome: noCredits, MSN: 2, Data: data[i*256 : min(i*256+256, 257)]}
		if got, _ := x.sent(); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		if last := i == 1; x.q.AckDue() != last {
			t.Fatalf("after response %d of the READ: AckDue %v", i, !last)
		}
	}
	if x.q.NextData(x.now, &x.answer) {
		t.Fatal("data where the result of an ATOMIC is due")
	}
	x.wantOut( // the result acknowledges the WRITE before it
		said{Op: rocev2.RCAtomicAck, PSN: psn(4), Syndrome: noCredits, MSN: 4, Original: word},
		ackOf(5, 5))
}

// A NAK behind a READ is due right after the READ's response, but the NAK of a gap alone is not.
func TestNAKBehindRead(t *testing.T) {
	for name, gap := range map[string]bool{"RNR": false, "PSN": true} {
		t.Run(name, func(t *testing.T) {
			x := newTarget(t, verbs.RC)
			x.next(read(dataBase, 4))
			if gap {
				x.psn = x.psn.Add(1)
			}
			x.next(send(so, 4)) // there is no receive
			if x.q.AckDue() || !x.q.NextData(x.now, &x.answer) {
				t.Fatal("the response of the READ is not the next one")
			}
			if due := x.q.AckDue(); due == gap {
				t.Errorf("AckDue %v", due)
			}
			if !x.q.NextAck(x.now, &x.answer) {
				t.Error("no NAK")
			}
		})
	}
}
