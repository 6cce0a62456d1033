// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"bytes"
	"strconv"
	"testing"
)

// Every opcode of the table is built, parsed again, and shows what was put in.
func TestBuildEveryOpcode(t *testing.T) {
	for i := range 256 {
		op := Opcode(i)
		d := Datagram{
			Src: src4, Dst: dst4, Opcode: op, DestQP: 0x123456, PSN: 0xFEDCBA, AckReq: true,
			QKey: 1, SrcQP: 2, VA: 3, RKey: 4, DMALen: 5, SwapAdd: 6, Compare: 7, Syndrome: 8, MSN: 9,
			Original: 10, Imm: 11, SACKHi: 12, SACKLo: 13, FlushPlacement: 2, Hello: goldenHello,
			Credit: CreditFields{CreditOpen, 14, 15, 16}, LifeNs: 17, Sent: 18, Void: 19, RateLimit: RateLimitFields{40, 41, 42}, OOO: &goldenOOO,
		}
		b, err := d.AppendTo(nil)
		if !op.Known() {
			equal(t, "unknown opcode", err, error(ErrOpcode))
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		p, err := ParseIP(b)
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		if err := p.VerifyICRC(); err != nil {
			t.Errorf("%s: %v", op, err)
		}
		equal(t, op.String()+" length", len(b), 20+8+12+int(op.Info().ExtLen)+len(p.Payload())+4)
		if h := p.RateLimit(); h != nil {
			equal(t, "rate limit", h.Fields(), d.RateLimit)
		}
		equal(t, "is a rate limit", p.RateLimit() != nil, op == OpRateLimit)
		if h := p.OETH(); h != nil {
			equal(t, "OETH", h.Fields(), goldenOOO.OETH)
		}
		if h := p.OACK(); h != nil {
			equal(t, "OACK", h.Fields(), goldenOOO.OACK)
		}
		if h := p.ONotify(); h != nil {
			equal(t, "ONotify", h.Fields(), goldenOOO.Notify)
		}
		if h := p.ONotifyAck(); h != nil {
			equal(t, "ONotifyAck", h.Fields(), goldenOOO.NotifyAck)
		}
		if h := p.ONak(); h != nil {
			equal(t, "ONak", h.Fields(), goldenOOO.Nak)
		}
		if h := p.DETH(); h != nil {
			equal(t, "qkey", h.QKey(), 1)
			equal(t, "srcqp", h.SrcQP(), 2)
		}
		if h := p.RETH(); h != nil {
			equal(t, "va", h.VA(), 3)
			equal(t, "rkey", h.RKey(), 4)
			equal(t, "len", h.DMALen(), 5)
		}
		if h := p.AtomicETH(); h != nil {
			equal(t, "swap", h.SwapOrAdd(), 6)
			equal(t, "compare", h.Compare(), 7)
		}
		if h := p.AETH(); h != nil {
			equal(t, "syndrome", h.Syndrome(), 8)
			equal(t, "msn", h.MSN(), 9)
		}
		if h := p.AtomicAckETH(); h != nil {
			equal(t, "original", h.Original(), 10)
		}
		if h := p.ImmDt(); h != nil {
			equal(t, "imm", h.Value(), 11)
		}
		if h := p.IETH(); h != nil {
			equal(t, "rkey", h.RKey(), 4)
		}
		if h := p.SACK(); h != nil {
			hi, lo := h.Bits()
			equal(t, "sack", hi<<8|lo, 12<<8|13)
		}
		if h := p.FETH(); h != nil {
			equal(t, "placement", h.Placement(), 2)
		}
		if h := p.CreditGrant(); h != nil {
			equal(t, "grant", h.Fields(), d.Credit)
			equal(t, "life", h.LifeNs(), 17)
		}
		if h := p.CreditReturn(); h != nil {
			equal(t, "return", h.Fields(), d.Credit)
			equal(t, "sent", h.Sent(), 18)
			equal(t, "void", h.Void(), 19)
		}
		equal(t, "is a grant", p.CreditGrant() != nil, op == OpCreditGrant)
		equal(t, "is a return", p.CreditReturn() != nil, op == OpCreditReturn)
	}
}

func TestBuildCNP(t *testing.T) {
	d := Datagram{Src: src4, Dst: dst4, TOS: CNPTOS, Opcode: CNP, DestQP: 0x11}
	b, err := d.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ParseIP(b)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "becn", p.BTH().BECN(), true)
	equal(t, "dscp", p.TOS()>>2, 48)
	if !bytes.Equal(p.Payload(), make([]byte, 16)) {
		t.Errorf("body %x, want 16 zero bytes", p.Payload())
	}
}

func TestBuildErrors(t *testing.T) {
	ok := Datagram{Src: src4, Dst: dst4, Opcode: RCWriteOnly}
	for name, c := range map[string]struct {
		edit func(*Datagram)
		want error
	}{
		"QPN of 25 bits":     {func(d *Datagram) { d.DestQP = 1 << 24 }, ErrFieldMax},
		"PSN of 25 bits":     {func(d *Datagram) { d.PSN = 1 << 24 }, ErrFieldMax},
		"payload on an ACK":  {func(d *Datagram) { d.Opcode, d.Payload = RCAck, []byte{1} }, ErrPayload},
		"IPv4 to IPv6":       {func(d *Datagram) { d.Dst = dst6 }, ErrFamily},
		"65536 bytes":        {func(d *Datagram) { d.Payload = make([]byte, 65536) }, ErrTooBig},
		"too big by the pad": {func(d *Datagram) { d.Payload = make([]byte, 65535-20-MinUDPLen-RETHLen) }, ErrTooBig},
		"too big by the stamp": {func(d *Datagram) {
			d.Payload, d.Stamp = make([]byte, 65535-20-MinUDPLen-RETHLen-3), &Stamp{}
		}, ErrTooBig},
	} {
		d := ok
		c.edit(&d)
		prefix := []byte("prefix")
		if b, err := d.AppendTo(prefix); err != c.want || string(b) != "prefix" {
			t.Errorf("%s: %d bytes, %v; want %v", name, len(b), err, c.want)
		}
	}
}

// A reused buffer must not show through.
func TestAppendToClearsTheBuffer(t *testing.T) {
	dirty := bytes.Repeat([]byte{0xEE}, 256)
	d := Datagram{Src: src4, Dst: dst4, Opcode: CNP, Stamp: &Stamp{}}
	clean, err := d.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := d.AppendTo(dirty[:0]); err != nil || !bytes.Equal(got, clean) {
		t.Errorf("in a dirty buffer\n%x, want\n%x (%v)", got, clean, err)
	}
}

func TestNoAllocations(t *testing.T) {
	buf := make([]byte, 0, 4096)
	d := Datagram{Src: src4, Dst: dst4, Opcode: RCWriteOnly, Payload: make([]byte, 1024), Stamp: &goldenStamp}
	for name, f := range map[string]func(){
		"build": func() { buf, _ = d.AppendTo(buf[:0]) },
		"parse, verify": func() {
			p, err := ParseIP(buf)
			if err != nil || p.VerifyICRC() != nil || p.Src() != src4 {
				t.Error(err)
			}
		},
		"refuse": func() {
			if _, err := ParseIP(buf[:30]); err != ErrShortBTH {
				t.Error(err)
			}
		},
		"strip and stamp": func() {
			b, s, err := StripStamp(buf)
			if err == nil {
				_, err = AppendStamp(b, &s)
			}
			if err != nil {
				t.Error(err)
			}
		},
	} {
		d.AppendTo(buf[:0])
		buf = buf[:20+MinUDPLen+RETHLen+1024+StampLen]
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	d := Datagram{Src: src4, Dst: dst4, Opcode: RCWriteMiddle, DestQP: 5, Payload: make([]byte, 1024)}
	buf := make([]byte, 0, 2048)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.AppendTo(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// Begin and Seal make the same bytes as AppendTo, also in a buffer that held
// something else, and only the payload's place is left to the caller.
func TestBeginSeal(t *testing.T) {
	for i := range 256 {
		op := Opcode(i)
		for _, n := range []int{0, 1, 2, 3, 4, 1023} {
			for _, stamp := range []*Stamp{nil, &goldenStamp} {
				d := Datagram{
					Src: src6, Dst: dst6, Opcode: op, DestQP: 0x123456, PSN: 0xFEDCBA, Solicited: true, AckReq: true,
					VA: 3, RKey: 4, DMALen: 5, Imm: 11, Hello: goldenHello, Stamp: stamp,
				}
				if i%2 == 0 {
					d.Src, d.Dst = src4, dst4
				}
				d.Payload = bytes.Repeat([]byte{7}, n)
				want, wantErr := d.AppendTo(nil)
				d.Payload = []byte("not this")

				b := bytes.Repeat([]byte{0xEE}, 2000)
				place, err := d.Begin(b, n)
				if err != wantErr {
					t.Fatalf("%s, %d bytes: %v, AppendTo says %v", op, n, err, wantErr)
				}
				if err != nil {
					continue
				}
				if len(place) != cap(place) || op != CNP && len(place) != n {
					t.Fatalf("%s, %d bytes: a place of %d, %d", op, n, len(place), cap(place))
				}
				for i := range n {
					place[i] = 7
				}
				end := d.Seal(b)
				if !bytes.Equal(b[:end], want) {
					t.Fatalf("%s, %d bytes\n got %x\nwant %x", op, n, b[:end], want)
				}
				if tail := b[end:]; !bytes.Equal(tail, bytes.Repeat([]byte{0xEE}, len(tail))) {
					t.Errorf("%s, %d bytes: written behind the end", op, n)
				}
				if _, err := d.Begin(b[:end-1], n); err != ErrTooBig {
					t.Errorf("%s, %d bytes into %d: %v", op, n, end-1, err)
				}
			}
		}
	}
}

// SealLocal is Seal but for the ICRC, which is 0.
func TestSealLocal(t *testing.T) {
	d := Datagram{Src: src4, Dst: dst4, Opcode: RCWriteOnly, Payload: []byte("abc"), Stamp: &goldenStamp}
	var sealed, local [256]byte
	for i := range local {
		local[i] = 0xff // what the memory had before does not matter
	}
	for _, b := range [][]byte{sealed[:], local[:]} {
		payload, err := d.Begin(b, 3)
		if err != nil {
			t.Fatal(err)
		}
		copy(payload, d.Payload)
	}
	n := d.Seal(sealed[:])
	if got := d.SealLocal(local[:]); got != n {
		t.Fatalf("%d bytes, want %d", got, n)
	}
	p, err := ParseIP(local[:n])
	if err != nil {
		t.Fatal(err)
	}
	if p.ICRC() != 0 || p.VerifyICRC() == nil {
		t.Errorf("the ICRC is %#x, and accepted", p.ICRC())
	}
	if err := p.PutICRC(); err != nil || string(local[:n]) != string(sealed[:n]) {
		t.Errorf("with its ICRC it is %x, want %x; %v", local[:n], sealed[:n], err)
	}
}

func BenchmarkBeginSeal(b *testing.B) {
	for _, n := range []int{0, 1024, 4096} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			d := Datagram{Src: src4, Dst: dst4, Opcode: RCWriteMiddle, DestQP: 5, SrcPort: 0xC000, Stamp: &Stamp{}}
			buf := make([]byte, 5000)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Begin(buf, n); err != nil {
					b.Fatal(err)
				}
				d.Seal(buf)
			}
		})
	}
}
