// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// fuzzMemory is the memory of the fuzz target: a byte may be written only if a packet or a
// receive has named it.
type fuzzMemory struct {
	*testMemory
	t     *testing.T
	mayGo map[uint32][]bool
}

func (m *fuzzMemory) note(key uint32, addr uint64, n int, f mem.Fault) mem.Fault {
	if f == mem.FaultNone && n != 0 {
		at := addr - m.regions[key].base
		for i := range uint64(n) {
			if !m.mayGo[key][at+i] {
				m.t.Fatalf("byte %d of region %#x was written; nobody asked for that", at+i, key)
			}
		}
	}
	return f
}

func (m *fuzzMemory) WriteLocal(pd, key uint32, addr uint64, src []byte) mem.Fault {
	return m.note(key, addr, len(src), m.testMemory.WriteLocal(pd, key, addr, src))
}

func (m *fuzzMemory) WriteRemote(pd, qpn, key uint32, addr uint64, src []byte) mem.Fault {
	return m.note(key, addr, len(src), m.testMemory.WriteRemote(pd, qpn, key, addr, src))
}

func (m *fuzzMemory) CompareSwap(pd, qpn, key uint32, addr uint64, compare, swap uint64) (uint64, mem.Fault) {
	was, f := m.testMemory.CompareSwap(pd, qpn, key, addr, compare, swap)
	return was, m.note(key, addr, 8, f)
}

func (m *fuzzMemory) FetchAdd(pd, qpn, key uint32, addr uint64, add uint64) (uint64, mem.Fault) {
	was, f := m.testMemory.FetchAdd(pd, qpn, key, addr, add)
	return was, m.note(key, addr, 8, f)
}

// script is the fuzzer's bytes; zeros when they are used up.
type script []byte

func (s *script) byte() byte {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return b
}

func (s *script) of(n int) int { return int(s.byte()) % n }

// fuzzRun applies a script to one queue pair and checks the effects.
type fuzzRun struct {
	*target
	memory  *fuzzMemory
	posted  uint64
	done    uint64
	pool    *ReorderPool
	seenErr bool
}

func newFuzzRun(t *testing.T, kind int) *fuzzRun {
	r := &fuzzRun{pool: NewReorderPool(32)}
	typ := []verbs.QPType{verbs.RC, verbs.RC, verbs.UC, verbs.UD}[kind]
	r.memory = &fuzzMemory{t: t, mayGo: map[uint32][]bool{}}
	r.target = newTarget(t, typ, func(c *Config, a *verbs.Attr) {
		r.memory.testMemory = c.Memory.(*testMemory)
		c.Memory, c.Reorder = r.memory, r.pool
		a.Selective = kind == 1
	})
	r.memory.add(0x300, 0x7000, 256, verbs.AccessRemoteRead) // read only
	for key, reg := range r.memory.regions {
		r.memory.mayGo[key] = make([]bool, len(reg.data))
	}
	return r
}

// allow marks bytes that may be written from now on.
func (r *fuzzRun) allow(key uint32, addr uint64, n uint64) {
	reg := r.memory.regions[key]
	if reg == nil || addr < reg.base {
		return
	}
	for i := addr - reg.base; n != 0 && i < uint64(len(reg.data)); i++ {
		r.memory.mayGo[key][i] = true
		n--
	}
}

// packet delivers a packet: mostly one that continues the last message.
func (r *fuzzRun) packet(s *script) {
	if s.of(8) != 0 {
		r.goodPacket(s)
	} else {
		r.anyPacket(s)
	}
}

// goodPacket delivers a correct packet, sometimes with another PSN.
func (r *fuzzRun) goodPacket(s *script) {
	d := dg{PSN: r.q.rsp.expected, AckReq: s.of(4) == 1, QKey: 0x1234, RKey: dataKey, VA: dataBase + uint64(s.byte())*64}
	size := uint32(s.byte())*4 + uint32(s.of(4))
	last := min(size, 256)
	switch m := r.q.rsp.message; {
	case r.q.Type() == verbs.UD:
		d.Opcode, d.Payload = rocev2.UDSendOnly, pattern(0, int(last))
	case m.op == rocev2.OperationSend && size > 256:
		d.Opcode, d.Payload = sm, pattern(0, 256)
	case m.op == rocev2.OperationSend:
		d.Opcode, d.Payload = sl, pattern(0, int(max(last, 1)))
	case m.op == rocev2.OperationWrite && m.left > 256:
		d.Opcode, d.Payload = wm, pattern(0, 256)
	case m.op == rocev2.OperationWrite:
		d.Opcode, d.Payload = wl, pattern(0, int(m.left))
	default:
		d.DMALen = size
		multi := size > 256
		switch s.of(6) {
		case 0, 1:
			d.Opcode, d.Payload = so, pattern(0, int(last))
			if multi {
				d.Opcode = sf
			}
		case 2, 3:
			d.Opcode, d.Payload = wo, pattern(0, int(last))
			if multi {
				d.Opcode = wf
			}
			r.allow(d.RKey, d.VA, uint64(size))
		case 4:
			d.Opcode = rocev2.RCReadRequest
		case 5:
			d.Opcode = rocev2.RCFetchAdd
			r.allow(d.RKey, d.VA, 8)
		}
	}
	if r.q.Type() == verbs.UC {
		if d.Opcode |= 0x20; !d.Opcode.Known() {
			return
		}
	}
	switch s.of(4) {
	case 0:
		d.PSN = d.PSN.Add(s.of(5))
	case 1:
		d.PSN = d.PSN.Add(-s.of(5))
	}
	r.in(d)
}

// anyPacket delivers a packet with random fields.
func (r *fuzzRun) anyPacket(s *script) {
	ops := []rocev2.Opcode{
		sf, sm, sl, so, rocev2.RCSendLastImm, rocev2.RCSendOnlyInv, wf, wm, wl, wo, rocev2.RCWriteLastImm, rocev2.RCWriteOnlyImm,
		rocev2.RCReadRequest, rocev2.RCCompareSwap, rocev2.RCFetchAdd,
	}
	op := ops[s.of(len(ops))]
	switch r.q.Type() {
	case verbs.UC:
		op |= 0x20
	case verbs.UD:
		op = rocev2.UDSendOnly + rocev2.Opcode(s.of(2))
	}
	if s.of(16) == 1 {
		op = rocev2.Opcode(s.byte())
	}
	if !op.Known() || r.q.isResponse(op, op.Info()) {
		return
	}
	d := dg{Opcode: op, AckReq: s.of(2) == 1, Solicited: s.of(2) == 1, QKey: 0x1234, Imm: 1}
	d.PSN = r.q.rsp.expected
	switch s.of(8) {
	case 1:
		d.PSN = d.PSN.Add(int(int8(s.byte())))
	case 2:
		d.PSN = d.PSN.Add(s.of(4))
	}
	lengths := []int{256, 256, 0, 1, 7, 8, 255, 252, 260, 300}
	d.DMALen = uint32(lengths[s.of(len(lengths))])
	switch s.of(4) {
	case 1:
		d.DMALen += 256
	case 2:
		d.DMALen = uint32(s.byte()) << 24
	}
	d.RKey = []uint32{dataKey, dataKey, dataKey, 0x300, bufKey, 0xBAD}[s.of(6)]
	d.VA = []uint64{dataBase, dataBase + 8, dataBase + 1<<16 - 256, 0x7000, bufBase, 1<<64 - 8}[s.of(6)] + uint64(s.of(16))
	if op.Info().Payload {
		d.Payload = pattern(s.byte(), lengths[s.of(len(lengths))])
	}
	if info := op.Info(); info.Operation == rocev2.OperationWrite && info.Ext&rocev2.ExtRETH != 0 {
		r.allow(d.RKey, d.VA, uint64(d.DMALen))
	}
	if op.Info().Operation == rocev2.OperationAtomic {
		r.allow(d.RKey, d.VA, 8)
	}
	r.in(d)
}

func (r *fuzzRun) post(s *script) {
	wr := verbs.RecvWR{ID: r.posted}
	for range s.of(4) {
		e := verbs.SGE{Addr: bufBase + uint64(s.byte())*64, Len: uint32(s.byte()) * 2, LKey: bufKey}
		if s.of(32) == 1 {
			e.LKey = 0xBAD
		}
		r.allow(e.LKey, e.Addr, uint64(e.Len))
		wr.SGL = append(wr.SGL, e)
	}
	if r.q.PostRecv(&wr) == nil {
		r.posted++
	}
}

// answers sends some of the responses; each goes through the codec.
func (r *fuzzRun) answers(n int) {
	for range n {
		if !r.q.NextAck(r.now, &r.answer) && !r.q.NextData(r.now, &r.answer) {
			return
		}
		if r.q.Type() != verbs.RC {
			r.t.Fatalf("%s answers", r.answer.Opcode)
		}
		r.sent()
	}
}

// check checks the invariants of the state.
func (r *fuzzRun) check() {
	t, rsp := r.t, &r.q.rsp
	for _, c := range r.cq.take() {
		if c.WRID != r.done {
			t.Fatalf("completion of %d, want %d: out of order or twice", c.WRID, r.done)
		}
		if c.Status != verbs.StatusSuccess && r.q.State() != verbs.StateErr {
			t.Fatalf("completed with %s in %s", c.Status, r.q.State())
		}
		r.done++
	}
	waiting := r.posted - r.done
	if rsp.buf.taken {
		waiting--
	}
	if uint64(rsp.ring.n) != waiting {
		t.Fatalf("%d receives in the ring, %d posted and not completed", rsp.ring.n, waiting)
	}
	switch st := r.q.State(); {
	case st != verbs.StateRTR && st != verbs.StateErr:
		t.Fatalf("in %s", st)
	case st == verbs.StateErr && waiting != 0:
		t.Fatalf("%d receives not flushed in ERR", waiting)
	case st == verbs.StateRTR && r.seenErr:
		t.Fatal("came back from ERR")
	case st == verbs.StateErr:
		r.seenErr = true
	}
	if int(rsp.res.pending) > len(rsp.res.ring) || len(rsp.res.replays) > maxReplays || rsp.expected > rocev2.PSNMask {
		t.Fatalf("resources %+v, expected %d", rsp.res, rsp.expected)
	}
	kept := 0
	if rsp.reorder != nil {
		for i, b := range rsp.reorder.slot {
			if b == nil {
				continue
			}
			kept++
			if d := rsp.reorder.psn[i].Diff(rsp.expected); d <= 0 || d >= sackWindow {
				t.Fatalf("a packet %d ahead is kept", d)
			}
		}
		if kept == 0 || kept != rsp.reorder.n {
			t.Fatalf("%d kept, counted %d", kept, rsp.reorder.n)
		}
	}
	if r.pool.allowed+len(r.pool.buffers)+kept != 32 {
		t.Fatalf("buffers leak: %d unmade, %d free, %d in use of 32", r.pool.allowed, len(r.pool.buffers), kept)
	}
}

func (r *fuzzRun) play(s script) {
	for len(s) != 0 {
		switch s.of(10) {
		case 0, 4:
			r.post(&s)
		case 1:
			r.answers(s.of(8))
		case 2:
			r.now += Time(s.byte()) * 10000
			r.q.Expire(r.now)
		case 3:
			if s.of(64) == 1 {
				r.memory.regions[dataKey].gone = true
			}
		default:
			r.packet(&s)
		}
		r.check()
	}
	// Responses come to an end, and nothing is sent in ERR.
	r.answers(1 << 20)
	if r.q.NextAck(r.now, &r.answer) || r.q.NextData(r.now, &r.answer) {
		r.t.Fatal("answers without an end")
	}
	r.check()
}

// FuzzResponder delivers packets that are well-formed and wrong in any other way.
func FuzzResponder(f *testing.F) {
	for kind := range byte(4) {
		for seed := range uint64(8) {
			rng := rand.New(rand.NewPCG(seed, uint64(kind)))
			b := make([]byte, 600)
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			f.Add(kind, b)
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		if len(b) > 4096 {
			return
		}
		newFuzzRun(t, int(kind)%4).play(b)
	})
}

// Many random scripts, and counts of how far they got: packets that are all refused at once
// would prove nothing.
func TestResponderAtRandom(t *testing.T) {
	var delivered, errs uint64
	var sum Counters
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 99))
		b := make([]byte, 2000)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		var r *fuzzRun
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r = newFuzzRun(t, int(seed%4))
			r.play(b)
		}) {
			return
		}
		delivered += r.count.Delivered
		sum.SentPackets += r.count.SentPackets
		sum.SACKSent += r.count.SACKSent
		sum.RNRSent += r.count.RNRSent
		sum.DuplicateRequest += r.count.DuplicateRequest
		if r.q.State() == verbs.StateErr {
			errs++
		}
	}
	t.Logf("%d packets delivered, %d of 400 ended in ERR, %d READ responses, %d SACKs, %d RNR, %d duplicates",
		delivered, errs, sum.SentPackets, sum.SACKSent, sum.RNRSent, sum.DuplicateRequest)
	if delivered < 1000 || errs == 0 || errs == 400 || sum.SentPackets == 0 || sum.SACKSent == 0 || sum.RNRSent == 0 || sum.DuplicateRequest == 0 {
		t.Error("the scripts do not reach what they are for")
	}
}
