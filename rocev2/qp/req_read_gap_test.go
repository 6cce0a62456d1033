// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A gap that late responses fill before the request for it is sent is not requested.
func TestReadGapFilled(t *testing.T) {
	const n = 16 * 256
	type span struct{ from, to int }
	for _, c := range []struct {
		name      string
		selective bool
		before    []span // responses whose gaps are requested
		requested string
		then      []span // responses before the next packet is sent
		want      string
	}{
		{"all packets so far", false, nil, "", []span{{0, 10}, {11, 14}, {10, 11}}, ""},
		{"all packets so far, softroce peer", true, nil, "", []span{{0, 10}, {11, 14}, {10, 11}}, ""},
		{"a gap near the highest packet is left", false, nil, "", []span{{0, 2}, {3, 6}, {7, 8}, {2, 3}}, ""},
		{"a gap far from the highest packet is left", false, nil, "", []span{{0, 2}, {3, 4}, {5, 10}, {2, 3}}, "4A!"},
		{"the end is missing", false, nil, "", []span{{0, 2}, {3, 4}, {15, 16}, {2, 3}}, "4A!"},
		{"an earlier gap is requested already", true, []span{{0, 2}, {3, 7}}, "2A!", []span{{8, 12}, {7, 8}}, ""},
		{"a part of the gap", true, nil, "", []span{{0, 2}, {4, 9}, {2, 3}}, "3A!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var x *source
			if c.selective {
				x = newSource(t, verbs.RC, selective)
			} else {
				x = newSource(t, verbs.RC)
			}
			x.post(verbs.OpRead, n, 0)
			x.wantSent("0A")
			for _, s := range c.before {
				x.response(0, s.from, s.to, n)
			}
			x.wantSent(c.requested)
			for _, s := range c.then {
				x.response(0, s.from, s.to, n)
			}
			x.wantSent(c.want)
			x.response(0, 0, 16, n)
			x.wantDone(0, verbs.StatusSuccess)
		})
	}
}

// Responses in any order, some of them twice, with time and timeouts between them. Each
// request names packets of which none has arrived, and at least one. A timer runs while data is
// missing.
func TestReadRequestsMissing(t *testing.T) {
	const packets, n = 40, 40*256 - 9
	again := 0
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			x := newSource(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.Selective, a.RetryCnt = seed%2 == 0, 7 })
			x.q.exact = seed%4 > 1 // as ReceiveExact
			x.post(verbs.OpRead, n, 0)
			x.wantSent("0A")
			var arrived [packets]bool
			received := 0 // all before it have arrived
			late := rnd.Perm(packets)[:4]
			deliver := func(i int) {
				x.response(0, i, i+1, n)
				if !x.q.exact || i == received {
					arrived[i] = true
				}
				for received < packets && arrived[received] {
					received++
				}
			}
			check := func() {
				for _, a := range x.sends(100) {
					from := a.PSN.Diff(firstPSN)
					to := from + int(a.Len+255)/256
					if a.Len == 0 || from < 0 || to > packets || a.VA != 0x8000+uint64(from)*256 {
						t.Fatalf("a request of %d bytes at %#x, packet %d of %d", a.Len, a.VA, from, packets)
					}
					for i := from; i < to; i++ {
						if arrived[i] {
							t.Errorf("packets [%d, %d) are requested, and packet %d has arrived", from, to, i)
						}
					}
					again++
				}
				if received < packets && x.q.Deadline() == 0 {
					t.Fatalf("no timer runs, and packet %d is missing", received)
				}
			}
			for i := range packets {
				for rnd.IntN(3) == 0 { // a late or repeated one first
					deliver(late[rnd.IntN(len(late))])
				}
				if i != late[0] && i != late[1] && i != late[2] && i != late[3] {
					deliver(i)
				}
				switch rnd.IntN(8) {
				case 0, 1, 2:
					check()
				case 3:
					x.now += Time(rnd.IntN(100_000))
				case 4:
					check()
					if received < packets {
						x.expire()
					}
				}
			}
			for i := 0; received < packets; i++ {
				if i == 1000 {
					t.Fatalf("packet %d is never there", received)
				}
				check()
				deliver(received)
			}
			x.wantDone(0, verbs.StatusSuccess)
			if !bytes.Equal(x.m.regions[dataKey].data[:n], pattern(9, n)) {
				t.Error("the data differs")
			}
		})
	}
	if again < 400 {
		t.Errorf("%d requests for missing packets: the test shows little", again)
	}
}
