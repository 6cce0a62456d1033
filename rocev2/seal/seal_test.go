// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

var (
	hostA = netip.MustParseAddr("10.0.0.1")
	hostB = netip.MustParseAddr("10.0.0.2")
	host6 = netip.MustParseAddr("fd00::1")
)

// pair returns both ends of one direction.
func pair(t testing.TB, suite Suite, l Limits) (*Sealer, *Opener) {
	t.Helper()
	secret := Secret{1, 2, 3}
	s, err := NewSealer(suite, secret, l)
	if err != nil {
		t.Fatal(err)
	}
	o, err := NewOpener(suite, secret, l)
	if err != nil {
		t.Fatal(err)
	}
	return s, o
}

// build returns a sealed datagram as an engine makes it.
func build(t testing.TB, s *Sealer, d rocev2.Datagram, plain []byte) []byte {
	t.Helper()
	d.Sealed = true
	if !d.Src.IsValid() {
		d.Src, d.Dst = hostA, hostB
	}
	b := make([]byte, d.Len(len(plain)+Overhead)+rocev2.StampLen)
	place, err := d.Begin(b, len(plain)+Overhead)
	if err != nil {
		t.Fatal(err)
	}
	copy(Plain(place), plain)
	if err := s.SealDatagram(b); err != nil {
		t.Fatal(err)
	}
	return b[:d.Seal(b)]
}

// open returns the plain data of a datagram, as an engine reads it. The datagram is not changed.
func open(o *Opener, now int64, datagram []byte) ([]byte, error) {
	p, err := rocev2.ParseIP(bytes.Clone(datagram))
	if err != nil {
		return nil, err
	}
	if err := p.VerifyICRC(); err != nil {
		return nil, err
	}
	err = o.OpenPacket(now, &p)
	return p.Payload(), err
}

func random(n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(n)})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}

// sealable are the opcodes with a packet each.
func sealable() (ops []rocev2.Opcode) {
	for i := range 256 {
		if op := rocev2.Opcode(i); Sealable(op) {
			ops = append(ops, op)
		}
	}
	return ops
}

// Every opcode of a queue pair, with and without IPv6 and stamp, every length of the pad.
func TestRoundTrip(t *testing.T) {
	for _, suite := range []Suite{AES128GCM, AES256GCM} {
		s, o := pair(t, suite, Limits{})
		n := uint64(0)
		for _, op := range sealable() {
			for _, size := range []int{0, 1, 2, 3, 4, 17, 1024, 4096} {
				if size > 0 && !op.Info().Payload {
					continue
				}
				for _, d := range []rocev2.Datagram{
					{Opcode: op, Src: hostA, Dst: hostB, DestQP: 0x800001, PSN: 7, VA: 1 << 40, RKey: 3, DMALen: 9, MSN: 2},
					{Opcode: op, Src: host6, Dst: host6, DestQP: 5, BECN: true, Stamp: &rocev2.Stamp{Token: 1}},
				} {
					plain := random(size)
					b := build(t, s, d, plain)
					got, err := open(o, 0, b)
					if err != nil || !bytes.Equal(got, plain) {
						t.Fatalf("%v, %d bytes: %v, %x", op, size, err, got)
					}
					if want := d.Len(size) + Overhead; d.Stamp == nil && len(b) != want {
						t.Fatalf("%v, %d bytes: datagram of %d bytes, want %d", op, size, len(b), want)
					}
					n++
				}
			}
		}
		if c := o.Counters(); c.Opened != n || c.Refused() != 0 {
			t.Errorf("%v: %d packets, counters %+v", suite, n, c)
		}
	}
}

func TestSealable(t *testing.T) {
	s, o := pair(t, AES128GCM, Limits{})
	for i := range 256 {
		op := rocev2.Opcode(i)
		info := op.Info()
		want := info.Class == rocev2.ClassRC || info.Class == rocev2.ClassUC || op == rocev2.OpSACK ||
			info.Class == rocev2.ClassControl && op >= 0xC8
		if Sealable(op) != want {
			t.Errorf("%v (%v): %v", op, info.Class, !want)
		}
		if rocev2.BTHLen+int(info.ExtLen) > maxHeaders {
			t.Errorf("%v has %d bytes of extended headers: too many for the associated data", op, info.ExtLen)
		}
		body := make([]byte, 200)
		body[0] = byte(op)
		if want {
			head := rocev2.BTHLen + int(info.ExtLen)
			for n := range head + Overhead {
				if err := s.Seal(body[:n]); err != ErrShort {
					t.Fatalf("%v: seal %d bytes: %v", op, n, err)
				}
				if _, err := o.Open(0, body[:n]); err != ErrShort {
					t.Fatalf("%v: open %d bytes: %v", op, n, err)
				}
			}
			continue
		}
		before := bytes.Clone(body)
		if err := s.Seal(body); err != ErrOpcode || !bytes.Equal(body, before) {
			t.Errorf("%v: seal: %v", op, err)
		}
		if _, err := o.Open(0, body); err != ErrOpcode {
			t.Errorf("%v: open: %v", op, err)
		}
	}
	if c := o.Counters(); c.Opcode == 0 || c.Short == 0 || c.Opened != 0 {
		t.Errorf("counters %+v", c)
	}
}

// immutable reports whether a bit of the datagram may not change in flight: all but what the
// ICRC masks. It is written down here again, from annex A17, for IPv4 without options.
func immutable(off int) bool {
	switch off {
	case 1, 8, 10, 11, 26, 27, 28 + 4: // TOS, TTL, checksum, UDP checksum, byte 4 of the BTH
		return false
	}
	return true
}

// A packet of which one bit was changed is refused, by ICRC or parser. If the ICRC is made right
// again, each bit from the BTH on is refused by the Opener, and counted. A bit that switches
// may change does no harm.
func TestEveryFlippedBit(t *testing.T) {
	for _, d := range []rocev2.Datagram{
		{Opcode: rocev2.RCWriteOnlyImm, DestQP: 0x800001, PSN: 7, VA: 1 << 40, RKey: 3, DMALen: 37, Imm: 9, AckReq: true},
		{Opcode: rocev2.RCReadResponseOnly, DestQP: 0x800001, PSN: 7, MSN: 3},
		{Opcode: rocev2.UCSendMiddle, DestQP: 0x800001, PSN: 7},
		{Opcode: rocev2.RCAck, DestQP: 0x800001, PSN: 7, MSN: 3},
		{Opcode: rocev2.RCCompareSwap, DestQP: 0x800001, PSN: 7, VA: 8, RKey: 1, SwapAdd: 4, Compare: 5},
	} {
		t.Run(d.Opcode.String(), func(t *testing.T) {
			var plain []byte
			if d.Opcode.Info().Payload {
				plain = random(37)
			}
			s, _ := pair(t, AES128GCM, Limits{})
			good := build(t, s, d, plain)
			for bit := range len(good) * 8 {
				flipBit(t, good, bit, plain)
			}
		})
	}
}

func flipBit(t *testing.T, good []byte, bit int, plain []byte) {
	const bth = 28
	_, o := pair(t, AES128GCM, Limits{})
	bad := bytes.Clone(good)
	bad[bit/8] ^= 1 << (bit % 8)
	got, err := open(o, 0, bad)
	if (err != nil) != immutable(bit/8) {
		t.Fatalf("byte %d bit %d: %v", bit/8, bit%8, err)
	}
	if err == nil && !bytes.Equal(got, plain) {
		t.Fatalf("byte %d bit %d: other data", bit/8, bit%8)
	}
	if bit/8 < bth || bit/8 >= len(good)-rocev2.ICRCLen || !immutable(bit/8) {
		return
	}
	p, err := rocev2.ParseIP(bad)
	if err != nil {
		return // an opcode whose headers do not fit
	}
	if err := p.PutICRC(); err != nil {
		t.Fatal(err)
	}
	before := o.Counters()
	if _, err = open(o, 0, bad); err == nil {
		t.Fatalf("byte %d bit %d with a right ICRC: opened", bit/8, bit%8)
	}
	after := o.Counters()
	if after.Refused() != before.Refused()+1 || after.Opened != 0 {
		t.Fatalf("byte %d bit %d: %v, counters %+v", bit/8, bit%8, err, after)
	}
	if got, err := open(o, 0, good); err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("byte %d bit %d: the genuine packet afterwards: %v", bit/8, bit%8, err)
	}
}

// The same packet with other addresses or ports is opened: keys, not addresses, say who sent it.
// Cut and joined payloads are refused.
func TestOtherLengths(t *testing.T) {
	s, o := pair(t, AES128GCM, Limits{})
	b := build(t, s, rocev2.Datagram{Opcode: rocev2.RCSendOnly, DestQP: 2}, random(64))
	p, err := rocev2.ParseIP(b)
	if err != nil {
		t.Fatal(err)
	}
	body := p.Body()
	for n := range len(body) {
		if _, err := o.Open(0, bytes.Clone(body[:n])); err == nil {
			t.Fatalf("opened %d of %d bytes", n, len(body))
		}
	}
	if _, err := o.Open(0, append(bytes.Clone(body), 0)); err != ErrForged {
		t.Fatalf("one byte more: %v", err)
	}
	if _, err := o.Open(0, body); err != nil {
		t.Fatal(err)
	}
}

// No key opens the packets of another direction, queue pair or suite.
func TestOtherKeys(t *testing.T) {
	s, _ := pair(t, AES128GCM, Limits{})
	b := build(t, s, rocev2.Datagram{Opcode: rocev2.RCSendOnly, DestQP: 2}, random(64))
	for _, k := range []struct {
		suite  Suite
		secret Secret
	}{{AES128GCM, Secret{1, 2, 4}}, {AES256GCM, Secret{1, 2, 3}}, {AES128GCM, Secret{}}} {
		o, err := NewOpener(k.suite, k.secret, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open(o, 0, b); err != ErrForged || o.Counters().Forged != 1 {
			t.Errorf("%v: %v, %+v", k.suite, err, o.Counters())
		}
	}
}

// The same data under the same PSN is another packet each time it is sent.
func TestCounterNotPSN(t *testing.T) {
	s, o := pair(t, AES128GCM, Limits{})
	d := rocev2.Datagram{Opcode: rocev2.RCReadResponseOnly, DestQP: 2, PSN: 5}
	seen := map[string]bool{}
	nonces := map[uint64]bool{}
	for range 100 {
		b := build(t, s, d, make([]byte, 64))
		p, _ := rocev2.ParseIP(b)
		place := p.Payload()
		nonces[binary.BigEndian.Uint64(place[4:])] = true
		seen[string(Plain(place))] = true
		if _, err := open(o, 0, b); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 100 || len(nonces) != 100 {
		t.Errorf("%d ciphertexts, %d nonces of 100 packets", len(seen), len(nonces))
	}
}

func TestNoAllocation(t *testing.T) {
	s, o := pair(t, AES128GCM, Limits{})
	body := make([]byte, rocev2.BTHLen+16+4096+Overhead)
	n := testing.AllocsPerRun(100, func() {
		body[0] = byte(rocev2.RCWriteOnly)
		if err := s.Seal(body); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Open(0, body); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Open(0, body); err != ErrReplay {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for each packet", n)
	}
}

func TestErrorText(t *testing.T) {
	for e := range numErrors + 2 {
		if text := e.Error(); len(text) < 10 {
			t.Errorf("error %d: %q", e, text)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for _, l := range []Limits{{MaxBlocks: MaxBlocks + 1}, {MaxBlocks: MinBlocks - 1}, {Overlap: -1}} {
		if _, err := NewSealer(AES128GCM, Secret{}, l); err == nil {
			t.Errorf("sealer with %+v", l)
		}
		if _, err := NewOpener(AES128GCM, Secret{}, l); err == nil {
			t.Errorf("opener with %+v", l)
		}
	}
	for _, suite := range []Suite{0, 3} {
		if _, err := NewSealer(suite, Secret{}, Limits{}); err == nil {
			t.Errorf("sealer with %v", suite)
		}
		if _, err := NewOpener(suite, Secret{}, Limits{}); err == nil {
			t.Errorf("opener with %v", suite)
		}
	}
}
