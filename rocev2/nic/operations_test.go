// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// operations runs every operation of a connected service between a and b, in sizes
// around the PMTU, and compares the memory of both byte for byte.
func operations(t *testing.T, a, b *side, pmtu int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	fill := func(b []byte) {
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
	}
	ok := func(s *side, what string, n uint32) verbs.Completion {
		t.Helper()
		c := s.poll(t)
		if c.Status != verbs.StatusSuccess || n != 0 && c.Bytes != n {
			t.Fatalf("%s of %d: %+v\na:\n%sb:\n%s", what, n, c, dump(a.dev), dump(b.dev))
		}
		return c
	}
	same := func(what string, off, n int) {
		t.Helper()
		if !bytes.Equal(a.buf[off:off+n], b.buf[off:off+n]) {
			t.Fatalf("%s of %d bytes at %d: memory differs", what, n, off)
		}
	}
	large := len(a.buf) / 2
	if a.qp.Type() == verbs.UC { // a veth drops what is more than 256 packets, and UC does not repeat them
		large = min(large, 120*pmtu)
	}
	for _, n := range []int{0, 1, 3, pmtu - 1, pmtu, pmtu + 1, 3*pmtu + 5, large} {
		off := rnd.IntN(len(a.buf) - n)
		write := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: a.sge(off, n), RemoteAddr: b.va + uint64(off), RKey: b.key}
		fill(a.buf[off : off+n])
		if a.qp.Type() == verbs.RC { // a WRITE of UC tells nobody that it arrived
			a.post(t, &write)
			ok(a, "WRITE", 0)
			same("WRITE", off, n)
			fill(a.buf[off : off+n])
		}

		b.recv(t, 0, 0)
		write.Op, write.Imm = verbs.OpWriteImm, 0x01020304
		a.post(t, &write)
		if c := ok(b, "WRITE with immediate", uint32(n)); c.Imm != 0x01020304 || !c.HasImm || c.Op != verbs.OpRecvWriteImm {
			t.Fatalf("%+v", c)
		}
		ok(a, "WRITE with immediate", 0)
		same("WRITE with immediate", off, n)

		fill(a.buf[off : off+n])
		b.recv(t, off, n)
		a.post(t, &verbs.SendWR{Op: verbs.OpSendImm, Flags: verbs.Signaled | verbs.Solicited, SGL: a.sge(off, n), Imm: 9})
		if c := ok(b, "SEND", uint32(n)); c.Imm != 9 || !c.Solicited || c.Op != verbs.OpRecv {
			t.Fatalf("%+v", c)
		}
		ok(a, "SEND", 0)
		same("SEND", off, n)

		if a.qp.Type() != verbs.RC {
			continue
		}
		fill(b.buf[off : off+n])
		a.post(t, &verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled, SGL: a.sge(off, n), RemoteAddr: b.va + uint64(off), RKey: b.key})
		ok(a, "READ", uint32(n))
		same("READ", off, n)
	}

	fill(a.buf[:200])
	b.recv(t, 0, 200)
	a.post(t, &verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled | verbs.Inline, Data: a.buf[:200]})
	ok(b, "inline SEND", 200)
	ok(a, "inline SEND", 0)
	same("inline SEND", 0, 200)
	if a.qp.Type() == verbs.RC {
		atomics(t, a, b, ok)
	}
}

func atomics(t *testing.T, a, b *side, ok func(*side, string, uint32) verbs.Completion) {
	t.Helper()
	word := func(s *side) uint64 { return binary.NativeEndian.Uint64(s.buf[64:]) }
	binary.NativeEndian.PutUint64(b.buf[64:], 100)
	wr := verbs.SendWR{Op: verbs.OpFetchAdd, Flags: verbs.Signaled, SGL: a.sge(64, 8), RemoteAddr: b.va + 64, RKey: b.key, Add: 11}
	a.post(t, &wr)
	ok(a, "FETCH_ADD", 8)
	if word(a) != 100 || word(b) != 111 {
		t.Errorf("FETCH_ADD: returned %d, left %d", word(a), word(b))
	}
	wr.Op, wr.Compare, wr.Swap = verbs.OpCompareSwap, 111, 5
	a.post(t, &wr)
	ok(a, "COMPARE_SWAP", 8)
	if word(a) != 111 || word(b) != 5 {
		t.Errorf("COMPARE_SWAP: returned %d, left %d", word(a), word(b))
	}
}

func (s *side) recv(t testing.TB, off, n int) {
	t.Helper()
	if err := s.qp.PostRecv(&verbs.RecvWR{ID: 99, SGL: s.sge(off, n)}); err != nil {
		t.Fatal(err)
	}
}

// Every operation at every PMTU over both families; frames of several buffers among
// them.
func TestOperations(t *testing.T) {
	hosts := engines.New(t, topo.Spec{Hosts: topo.Hosts(2), MTU: 4400}, "--policy", "mode=fixed")
	for _, h := range hosts {
		h.MustOpen(t, nic.Options{})
	}
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC} {
		for _, v6 := range []bool{false, true} {
			for m := rocev2.PMTU256; m <= rocev2.PMTU4096; m++ {
				t.Run(fmt.Sprintf("%s/v6=%v/%d", typ, v6, m.Bytes()), func(t *testing.T) {
					a, b := newSide(t, hosts[0], typ, 1<<18), newSide(t, hosts[1], typ, 1<<18)
					if err := connectPair(a.qp, b.qp, hosts[0].Addr(v6), hosts[1].Addr(v6), m); err != nil {
						t.Fatal(err)
					}
					operations(t, a, b, m.Bytes())
					a.close(t)
					b.close(t)
				})
			}
		}
	}
	t.Logf("h1:\n%s", dump(hosts[0].Dev))
	t.Logf("h2:\n%s", dump(hosts[1].Dev))
	again := counter(hosts[0].Dev, "tx_retransmits") + counter(hosts[1].Dev, "tx_retransmits")
	for _, h := range hosts {
		for _, c := range h.Dev.Counters() {
			switch c.Name {
			case "rx_icrc_encapsulated", "rx_malformed", "rx_malformed_request", "rx_wrong_peer", "rx_bad_pkey", "tx_no_path", "tx_no_room",
				"resp_local_errors", "sync_errors", "retry_exceeded_err", "rx_xsk_dropped":
				if c.Value != 0 {
					t.Errorf("%s: %s is %d", h.Name(), c.Name, c.Value)
				}
			case "rx_unknown_qpn": // a packet that is sent again for a late answer, or its own answer, may find its queue pair destroyed
				if c.Value > again {
					t.Errorf("%s: %s is %d, and %d packets were sent again", h.Name(), c.Name, c.Value, again)
				}
			}
		}
	}
}

func (s *side) close(t testing.TB) {
	t.Helper()
	if err := s.qp.Destroy(); err != nil {
		t.Error(err)
	}
	if err := s.cq.Destroy(); err != nil {
		t.Error(err)
	}
}

// Two queue pairs of one engine: their packets do not leave it.
func TestSameHost(t *testing.T) {
	hosts := engines.New(t, topo.Spec{Hosts: topo.Hosts(1)})
	hosts[0].MustOpen(t, nic.Options{})
	for _, v6 := range []bool{false, true} {
		a, b := newSide(t, hosts[0], verbs.RC, 1<<18), newSide(t, hosts[0], verbs.RC, 1<<18)
		addr := hosts[0].Addr(v6)
		if err := engines.Connect(a.qp, b.qp, addr, addr, rocev2.PMTU1024); err != nil {
			t.Fatal(err)
		}
		operations(t, a, b, 1024)
	}
	if rows, err := hosts[0].Attachment(t).Rows(); err != nil || len(rows) != 0 {
		t.Errorf("%d entries in the table for ourselves (%v)", len(rows), err)
	}
}

// Datagrams: between hosts, within one, to two queue pairs, with the GRH area.
func TestDatagrams(t *testing.T) {
	hosts := engines.New(t, topo.Spec{Hosts: topo.Hosts(2)}, "--policy", "mode=fixed")
	for _, h := range hosts {
		h.MustOpen(t, nic.Options{})
	}
	a, b, c := newSide(t, hosts[0], verbs.UD, 8192), newSide(t, hosts[1], verbs.UD, 8192), newSide(t, hosts[0], verbs.UD, 8192)
	if err := engines.Connect(a.qp, b.qp, hosts[0].IPv4(), hosts[1].IPv4(), rocev2.PMTU1024); err != nil {
		t.Fatal(err)
	}
	if err := engines.Connect(c.qp, b.qp, hosts[0].IPv4(), hosts[1].IPv4(), rocev2.PMTU1024); err == nil {
		t.Fatal("b went to INIT twice")
	}
	for _, v6 := range []bool{false, true} {
		for _, to := range []*side{b, c} {
			if to == c && to.qp.State() != verbs.StateRTS {
				continue
			}
			ah, err := a.pd.CreateAH(verbs.AddressVector{Src: hosts[0].Addr(v6), Dst: to.host.Addr(v6)})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{0, 1, 1024} {
				for i := range n {
					a.buf[i] = byte(i + n)
				}
				to.recv(t, 0, 4096)
				a.post(t, &verbs.SendWR{Op: verbs.OpSendImm, Flags: verbs.Signaled, SGL: a.sge(0, n), Imm: 3, AH: ah, RemoteQPN: to.qp.QPN(), RemoteQKey: 7})
				if got := a.poll(t); got.Status != verbs.StatusSuccess {
					t.Fatalf("%+v", got)
				}
				got := to.poll(t)
				if got.Status != verbs.StatusSuccess || got.Bytes != uint32(40+n) || got.SrcQP != a.qp.QPN() || !got.HasGRH || got.Imm != 3 ||
					!bytes.Equal(to.buf[40:40+n], a.buf[:n]) {
					t.Fatalf("%d bytes: %+v", n, got)
				}
			}
			if err := ah.Destroy(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := a.pd.CreateAH(verbs.AddressVector{Src: hosts[0].IPv4(), Dst: hosts[1].IPv6()}); err == nil {
		t.Error("an address handle from IPv4 to IPv6")
	}
}
