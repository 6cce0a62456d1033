// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"bytes"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var (
	keysOfA = seal.Keys{Suite: seal.AES128GCM, Send: seal.Secret{0: 1, 31: 2}, Receive: seal.Secret{0: 3, 31: 4}}
	keysOfB = seal.Keys{Suite: keysOfA.Suite, Send: keysOfA.Receive, Receive: keysOfA.Send}
)

// encryptedPair connects two encrypted endpoints.
func encryptedPair(t *testing.T, seed uint64, typ verbs.QPType) (w *world, a, b *endpoint) {
	t.Helper()
	w = newWorld(t, seed)
	a, b = w.side[0].endpoint(typ), w.side[1].endpoint(typ)
	for e, k := range map[*endpoint]seal.Keys{a: keysOfA, b: keysOfB} {
		if err := e.qp.Encrypt(k, seal.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	w.join(a, b, 0, rocev2.PMTU1024)
	return w, a, b
}

// All operations give the same memory as without encryption, while packets are lost, repeated and exchanged.
// Each packet on the wire opens with package seal, as the engine does, and none has plaintext.
func TestEncryptedOperations(t *testing.T) {
	for seed := range uint64(20) {
		w, a, b := encryptedPair(t, seed, verbs.RC)
		w.net.Faults = card.Faults{Loss: .03, Duplicate: .03, Reorder: .03, ReorderBy: 1000}
		opener, err := seal.NewOpener(keysOfB.Suite, keysOfB.Receive, seal.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		data := a.fill(0, 30000, seed)
		w.net.Drop = func(frame []byte) bool {
			for at := 0; at+16 <= len(data); at += 500 {
				if bytes.Contains(frame, data[at:at+16]) {
					t.Fatalf("seed %d: plaintext of %d on the wire", seed, at)
				}
			}
			p, err := rocev2.ParseFrame(bytes.Clone(frame))
			if err != nil || p.VerifyICRC() != nil || p.BTH().PKey() != seal.PKey {
				t.Fatalf("seed %d: a frame that is not encrypted, or has a wrong ICRC: %v", seed, err)
			}
			if p.Dst() == b.addr[0] {
				if err := opener.OpenPacket(int64(w.net.Now()), &p); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			return false
		}
		a.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 30000)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
		a.completes(verbs.Completion{WRID: 1, Op: verbs.OpWrite})
		b.wants(0, data, "WRITE")
		b.receive(7, b.sge(40000, 5000))
		a.post(&verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(1, 5000)}})
		a.completes(verbs.Completion{WRID: 2, Op: verbs.OpSend})
		b.wants(40000, data[1:5001], "SEND")
		a.post(&verbs.SendWR{ID: 3, Op: verbs.OpRead, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(50000, 30000)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
		a.completes(verbs.Completion{WRID: 3, Op: verbs.OpRead, Bytes: 30000})
		a.wants(50000, data, "READ")
		w.quiet()
		ca, cb := a.qp.CryptCounters(), b.qp.CryptCounters()
		if ca.Encrypted+cb.Encrypted != uint64(w.net.Sent) || cb.Decrypted < 30 || ca.Decrypted < 30 || ca.Unencrypted+cb.Unencrypted != 0 {
			t.Errorf("seed %d: %+v, %+v, %d frames", seed, ca, cb, w.net.Sent)
		}
	}
}

// A copy of a packet, a packet with any bit behind the BTH changed and a right ICRC, and a plain packet change
// nothing, and are counted.
func TestEncryptedRefuses(t *testing.T) {
	w, a, b := encryptedPair(t, 1, verbs.UC)
	var frame []byte
	w.net.Drop = func(f []byte) bool { frame = bytes.Clone(f); return true }
	a.fill(0, 40, 1)
	a.post(&verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 40)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
	w.quiet()
	before := b.read(0, 100)
	const headers = 14 + 20 + 8 // Ethernet, IPv4, UDP
	forged := uint64(0)
	for bit := (headers + 12) * 8; bit < (len(frame)-4)*8; bit++ {
		f := bytes.Clone(frame)
		f[bit/8] ^= 1 << (bit % 8)
		p, err := rocev2.ParseFrame(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.PutICRC(); err != nil {
			t.Fatal(err)
		}
		b.m.Deliver(0, f, w.net.Now())
		forged++
	}
	if c := b.qp.CryptCounters(); c.Undecryptable != forged || c.Decrypted != 0 || !bytes.Equal(b.read(0, 100), before) {
		t.Fatalf("%+v of %d packets, or memory has changed", c, forged)
	}
	for range 2 {
		b.m.Deliver(0, bytes.Clone(frame), w.net.Now())
	}
	if c := b.qp.CryptCounters(); c.Undecryptable != forged+1 || c.Decrypted != 1 {
		t.Errorf("a copy: %+v", c)
	}
	// The same from a queue pair without keys.
	plain, sink := w.side[0].endpoint(verbs.UC), w.side[1].endpoint(verbs.UC)
	w.join(plain, sink, 0, rocev2.PMTU1024)
	w.net.Drop = func(f []byte) bool {
		f = bytes.Clone(f)
		p, err := rocev2.ParseFrame(f)
		if err != nil {
			t.Fatal(err)
		}
		copy(p.BTH()[5:8], []byte{0, byte(b.qp.QPN() >> 8), byte(b.qp.QPN())})
		if err := p.PutICRC(); err != nil {
			t.Fatal(err)
		}
		b.m.Deliver(0, f, w.net.Now())
		// And an encrypted packet for a plain queue pair.
		f = bytes.Clone(frame)
		if p, err = rocev2.ParseFrame(f); err != nil {
			t.Fatal(err)
		}
		copy(p.BTH()[5:8], []byte{0, byte(sink.qp.QPN() >> 8), byte(sink.qp.QPN())})
		if err := p.PutICRC(); err != nil {
			t.Fatal(err)
		}
		b.m.Deliver(0, f, w.net.Now())
		return true
	}
	plain.post(&verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{plain.sge(0, 40)}, RemoteAddr: regionVA, RKey: sink.mr.RKey()})
	w.quiet()
	if c := b.qp.CryptCounters(); c.Unencrypted != 1 || c.Undecryptable != forged+1 {
		t.Errorf("a plain packet: %+v", c)
	}
	if got := sink.read(0, 100); !bytes.Equal(got[40:], before[40:]) {
		t.Error("a plain queue pair has taken an encrypted packet")
	}
}

// Keys are taken once, and what cannot be encrypted is refused.
func TestEncryptRefused(t *testing.T) {
	w := newWorld(t, 1)
	a, b := w.side[0].endpoint(verbs.RC), w.side[1].endpoint(verbs.RC)
	if err := a.qp.Encrypt(keysOfA, seal.Limits{}); err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func() error{
		"a second time": func() error { return a.qp.Encrypt(keysOfA, seal.Limits{}) },
		"UD":            func() error { return w.side[0].endpoint(verbs.UD).qp.Encrypt(keysOfA, seal.Limits{}) },
		"no suite":      func() error { return b.qp.Encrypt(seal.Keys{}, seal.Limits{}) },
		"limits":        func() error { return b.qp.Encrypt(keysOfB, seal.Limits{MaxBlocks: 5}) },
	} {
		if try() == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	if err := b.qp.Encrypt(keysOfB, seal.Limits{}); err != nil {
		t.Fatal(err)
	}
	w.join(a, b, 0, rocev2.PMTU1024)
	if err := b.qp.Encrypt(keysOfB, seal.Limits{}); err == nil {
		t.Error("in RTS: not refused")
	}
	for _, e := range []*endpoint{a, b} {
		if err := e.qp.Modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState); err != nil {
			t.Fatal(err)
		}
	}
	w.join(a, b, 0, rocev2.PMTU1024) // plain
	a.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 40)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
	a.completes(verbs.Completion{WRID: 1, Op: verbs.OpWrite})
	if c := a.qp.CryptCounters(); c.Encrypted != 0 {
		t.Errorf("after RESET: %+v", c)
	}

	// The P_Key of encrypted packets, and a driver that writes the suite and no secrets.
	x := w.side[0].endpoint(verbs.RC)
	if err := x.qp.Modify(verbs.Attr{State: verbs.StateInit, PKey: seal.PKey, Access: allRights}, verbs.MaskState|verbs.MaskPKey|verbs.MaskAccess); err == nil {
		t.Error("the P_Key of encrypted packets: not refused")
	}
	if err := a.qp.Modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]*endpoint{"no secrets": x, "secrets that were used": a} {
		regs.QpOf(e.card, int(e.qp.QPN())).SetEncryption(regs.QpEncryption(0).WithSuite(1))
		if err := verbs.Connect(e.qp, verbs.Endpoint{Addr: a.addr[0], QPN: e.qp.QPN()}, verbs.Endpoint{Addr: b.addr[0], QPN: 9}, verbs.DefaultAttr()); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}

// An encrypted queue pair keeps the P_Key of encrypted packets: other ones are refused in all steps, and the
// default changes nothing. Attributes that RTR takes can be set after the step that takes the keys.
func TestEncryptedKeepsPKey(t *testing.T) {
	const mask = verbs.MaskState | verbs.MaskPKey
	w, a, b := encryptedPair(t, 1, verbs.RC)
	modify := func(e *endpoint, attr verbs.Attr, to verbs.State, mask verbs.AttrMask) error {
		attr.State = to
		return e.qp.Modify(attr, mask)
	}
	check := func(what string, err error, refused bool) {
		t.Helper()
		if (err != nil) != refused {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("to SQD", modify(a, verbs.Attr{}, verbs.StateSQD, verbs.MaskState), false)
	check("P_Key in SQD", modify(a, verbs.Attr{PKey: 0x8001}, verbs.StateSQD, mask), true)
	check("default P_Key in SQD", modify(a, verbs.Attr{}, verbs.StateSQD, mask), false)
	check("to RTS", modify(a, verbs.Attr{}, verbs.StateRTS, verbs.MaskState), false)
	data := a.fill(0, 40, 1)
	a.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 40)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
	a.completes(verbs.Completion{WRID: 1, Op: verbs.OpWrite})
	b.wants(0, data, "WRITE")

	x := w.side[0].endpoint(verbs.RC)
	check("keys", x.qp.Encrypt(keysOfA, seal.Limits{}), false)
	attr := verbs.DefaultAttr()
	check("to INIT", verbs.ToInit(x.qp, verbs.Endpoint{}, attr), false)
	attr.AV, attr.DestQPN, attr.PKey = verbs.AddressVector{Src: a.addr[0], Dst: b.addr[0]}, 9, 0x8001
	check("P_Key to RTR", modify(x, attr, verbs.StateRTR, verbs.RequiredMask(verbs.RC, verbs.StateRTR)|verbs.MaskPKey), true)
	attr.PKey = 0
	check("to RTR", modify(x, attr, verbs.StateRTR, verbs.RequiredMask(verbs.RC, verbs.StateRTR)), false)
	check("SACK in RTR", modify(x, verbs.Attr{Selective: true}, verbs.StateRTR, verbs.MaskState|verbs.MaskSelective), false)
}

// A packet can be encrypted and have a timestamp option, which its IP length counts.
func TestEncryptedWithTimestamps(t *testing.T) {
	w, a, b := fourPorts(t)
	ab, ba := regs.DestOf(a.card, 8), regs.DestOf(b.card, 8) // node 9, at both
	const token = 0x1111
	for _, d := range []regs.Dest{ab, ba} {
		d.SetTxToken(token)
		d.SetRxToken(token)
		d.SetCapsWord(regs.DestCapsWord(0).WithCaps(1))
	}
	for e, k := range map[*endpoint]seal.Keys{a: keysOfA, b: keysOfB} {
		if err := e.qp.Modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState); err != nil {
			t.Fatal(err)
		}
		if err := e.qp.Encrypt(k, seal.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	w.join(a, b, 0, rocev2.PMTU1024)
	data := a.fill(0, 3000, 1)
	a.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, 3000)}, RemoteAddr: regionVA, RKey: b.mr.RKey()})
	a.completes(verbs.Completion{WRID: 1, Op: verbs.OpWrite})
	b.wants(0, data, "WRITE")
	if c := b.qp.CryptCounters(); ab.TxUnstamped() != 0 || ba.RxUnstamped() != 0 || ba.RxPackets() != c.Decrypted || c.Decrypted != 3 {
		t.Errorf("%d packets, %+v; without a timestamp %d and %d", ba.RxPackets(), c, ab.TxUnstamped(), ba.RxUnstamped())
	}
}
