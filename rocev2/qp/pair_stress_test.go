// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// asRxe returns a drop function that also drops what rxe's responder drops: a duplicate READ
// from before the last part requested again (duplicate_request in rxe_resp.c stores the
// start of that part only).
func asRxe(r *rand.Rand, share float64) func(int, *rocev2.Packet) bool {
	type span struct {
		first rocev2.PSN
		n     int
		from  uint64
	}
	var reads []span
	return func(from int, p *rocev2.Packet) bool {
		if r.Float64() < share {
			return true
		}
		if from != 0 || p.Opcode() != rocev2.RCReadRequest {
			return false
		}
		at, h := p.BTH().PSN(), p.RETH()
		for i := range reads {
			s := &reads[i]
			if d := at.Diff(s.first); d >= 0 && d < s.n {
				if h.VA() < s.from {
					return true
				}
				s.from = h.VA()
				return false
			}
		}
		reads = append(reads, span{at, int(rocev2.PMTU256.Packets(h.DMALen())), h.VA()})
		reads = reads[max(0, len(reads)-8):]
		return false
	}
}

// READs of up to 200 packets from a responder that drops as rxe does, at 10 % loss.
func TestReadsFromRxe(t *testing.T) {
	for seed := range uint64(5) {
		p := newPair(t, verbs.RC)
		p.drop = asRxe(rand.New(rand.NewPCG(seed, 7)), 0.1)
		got := p.transfer(verbs.OpRead, 100, 50_000)
		t.Logf("seed %d: %.3f, %.1f ms, probes %d, timeouts %d", seed, got, float64(p.now)/1e6, p.side[0].count.TailProbes, p.side[0].count.Timeouts)
		if got > 1.5 {
			t.Errorf("%.3f responses for one that was needed", got)
		}
	}
}

// Random operations over a wire that loses, doubles, delays and reorders packets: every byte
// as if in order, every completion in order and once.
func TestPairStress(t *testing.T) {
	for seed := range uint64(8) {
		for _, sel := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed=%d/selective=%v", seed, sel), func(t *testing.T) {
				stress(t, seed, sel)
			})
		}
	}
}

func stress(t *testing.T, seed uint64, sel bool) {
	r := rand.New(rand.NewPCG(seed, 99))
	p := newPair(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.Selective = sel; a.RetryCnt = 7 })
	p.unruly = r
	p.lossy(seed, [...]float64{0.02, 0.05, 0.1, 0.25}[seed%4])
	fillRandom(r, p.data(0)[:1<<20])
	fillRandom(r, p.data(1)[:1<<20])
	// The model: the final content of both memories. Each work request has its own places.
	// Only the ATOMICs share a counter at the end.
	model := [2][]byte{bytes.Clone(p.data(0)), bytes.Clone(p.data(1))}
	counter, sum := uint64(pairMem-8), uint64(0)
	binary.NativeEndian.PutUint64(p.data(1)[counter:], 0)
	binary.NativeEndian.PutUint64(model[1][counter:], 0)
	at, n, recv := uint64(0), 0, 0
	for ; n < 300; n++ {
		size := uint64(r.IntN(3000))
		if r.IntN(4) == 0 {
			size = uint64(r.IntN(20))
		}
		wr := &verbs.SendWR{ID: uint64(n), Flags: verbs.Signaled, RemoteAddr: dataBase + at, RKey: dataKey}
		if r.IntN(8) == 0 {
			wr.Flags |= verbs.Fence
		}
		local, remote := model[0][at:at+size], model[1][at:at+size]
		switch r.IntN(5) {
		case 0:
			wr.Op = verbs.OpWrite
			copy(remote, local)
		case 1, 2:
			wr.Op = verbs.OpSend
			if r.IntN(2) == 0 {
				wr.Op = verbs.OpWriteImm
			}
			if err := p.side[1].q.PostRecv(&verbs.RecvWR{ID: uint64(recv), SGL: []verbs.SGE{{Addr: dataBase + at, Len: uint32(size), LKey: dataKey}}}); err != nil {
				t.Fatal(err)
			}
			recv++
			copy(remote, local)
		case 3:
			wr.Op = verbs.OpRead
			copy(local, remote)
		case 4:
			wr.Op, size = verbs.OpFetchAdd, 8
			wr.RemoteAddr, wr.Add = dataBase+counter, uint64(n)
			binary.NativeEndian.PutUint64(model[0][at:], sum)
			sum += uint64(n)
			binary.NativeEndian.PutUint64(model[1][counter:], sum)
		}
		wr.SGL = []verbs.SGE{{Addr: dataBase + at, Len: uint32(size), LKey: dataKey}}
		at += size
		p.post(wr)
		if r.IntN(3) == 0 {
			for range r.IntN(50) {
				p.step()
			}
		}
	}
	p.run(func() bool { return len(p.side[0].cq.got) == n })
	p.wantAll(n)
	for i, c := range p.side[1].rq.got {
		if c.WRID != uint64(i) || c.Status != verbs.StatusSuccess {
			t.Fatalf("receive %d: %+v", i, c)
		}
	}
	if len(p.side[1].rq.got) != recv {
		t.Errorf("%d receives, want %d", len(p.side[1].rq.got), recv)
	}
	for i := range model {
		if !bytes.Equal(p.data(i), model[i]) {
			t.Errorf("memory %d differs", i)
		}
	}
	req := &p.side[0].q.req
	if req.reads.n != 0 || req.reads.requested != 0 || req.head != req.tail || req.sndUna != req.sndMax {
		t.Errorf("left over: %+v", req.reads)
	}
	if d := p.side[0].q.Deadline(); d != 0 && d < p.now+idleTime/2 {
		t.Errorf("a deadline in %d ns with nothing outstanding", d-p.now)
	}
}
