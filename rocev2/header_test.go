// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"bytes"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// headers holds golden bytes of every header, written field by field from the
// formats of the specification; write must produce them, read must see its values.
var headers = []struct {
	name  string
	wire  string
	parse func([]byte) ([]byte, error)
	write func([]byte)
	read  func(*testing.T, []byte)
}{
	{
		"BTH", "0a f0 ffff c0 000011 80 00004d",
		func(b []byte) ([]byte, error) { return ParseBTH(b) },
		func(b []byte) {
			h := BTH(b)
			h.SetOpcode(RCWriteOnly)
			h.SetSolicited(true)
			h.SetMigReq(true)
			h.SetPadCount(3)
			h.SetPKey(0xFFFF)
			h.SetFECN(true)
			h.SetBECN(true)
			h.SetDestQP(0x11)
			h.SetAckReq(true)
			h.SetPSN(77)
		},
		func(t *testing.T, b []byte) {
			h := BTH(b)
			equal(t, "opcode", h.Opcode(), RCWriteOnly)
			equal(t, "se", h.Solicited(), true)
			equal(t, "migreq", h.MigReq(), true)
			equal(t, "pad", h.PadCount(), 3)
			equal(t, "tver", h.Version(), 0)
			equal(t, "pkey", h.PKey(), 0xFFFF)
			equal(t, "fecn", h.FECN(), true)
			equal(t, "becn", h.BECN(), true)
			equal(t, "qpn", h.DestQP(), 0x11)
			equal(t, "ackreq", h.AckReq(), true)
			equal(t, "psn", h.PSN(), 77)
		},
	},
	{
		"DETH", "80010000 00 abcdef",
		func(b []byte) ([]byte, error) { return ParseDETH(b) },
		func(b []byte) { DETH(b).SetQKey(0x80010000); DETH(b).SetSrcQP(0xabcdef) },
		func(t *testing.T, b []byte) {
			equal(t, "qkey", DETH(b).QKey(), 0x80010000)
			equal(t, "srcqp", DETH(b).SrcQP(), 0xabcdef)
		},
	},
	{
		"RETH", "0102030405060708 11223344 00001000",
		func(b []byte) ([]byte, error) { return ParseRETH(b) },
		func(b []byte) {
			RETH(b).SetVA(0x0102030405060708)
			RETH(b).SetRKey(0x11223344)
			RETH(b).SetDMALen(4096)
		},
		func(t *testing.T, b []byte) {
			equal(t, "va", RETH(b).VA(), 0x0102030405060708)
			equal(t, "rkey", RETH(b).RKey(), 0x11223344)
			equal(t, "len", RETH(b).DMALen(), 4096)
		},
	},
	{
		"AtomicETH", "0102030405060708 11223344 a1a2a3a4a5a6a7a8 b1b2b3b4b5b6b7b8",
		func(b []byte) ([]byte, error) { return ParseAtomicETH(b) },
		func(b []byte) {
			h := AtomicETH(b)
			h.SetVA(0x0102030405060708)
			h.SetRKey(0x11223344)
			h.SetSwapOrAdd(0xa1a2a3a4a5a6a7a8)
			h.SetCompare(0xb1b2b3b4b5b6b7b8)
		},
		func(t *testing.T, b []byte) {
			h := AtomicETH(b)
			equal(t, "va", h.VA(), 0x0102030405060708)
			equal(t, "rkey", h.RKey(), 0x11223344)
			equal(t, "swap", h.SwapOrAdd(), 0xa1a2a3a4a5a6a7a8)
			equal(t, "compare", h.Compare(), 0xb1b2b3b4b5b6b7b8)
		},
	},
	{
		"AETH", "60 000102",
		func(b []byte) ([]byte, error) { return ParseAETH(b) },
		func(b []byte) { AETH(b).SetSyndrome(SyndromeNAK(NAKPSNSequence)); AETH(b).SetMSN(0x102) },
		func(t *testing.T, b []byte) {
			equal(t, "type", AETH(b).Syndrome().Type(), AckNAK)
			equal(t, "msn", AETH(b).MSN(), 0x102)
		},
	},
	{
		"AtomicAckETH", "0102030405060708",
		func(b []byte) ([]byte, error) { return ParseAtomicAckETH(b) },
		func(b []byte) { AtomicAckETH(b).SetOriginal(0x0102030405060708) },
		func(t *testing.T, b []byte) { equal(t, "original", AtomicAckETH(b).Original(), 0x0102030405060708) },
	},
	{
		"ImmDt", "cafe0001",
		func(b []byte) ([]byte, error) { return ParseImmDt(b) },
		func(b []byte) { ImmDt(b).SetValue(0xcafe0001) },
		func(t *testing.T, b []byte) { equal(t, "imm", ImmDt(b).Value(), 0xcafe0001) },
	},
	{
		"IETH", "11223344",
		func(b []byte) ([]byte, error) { return ParseIETH(b) },
		func(b []byte) { IETH(b).SetRKey(0x11223344) },
		func(t *testing.T, b []byte) { equal(t, "rkey", IETH(b).RKey(), 0x11223344) },
	},
	{
		"FETH", "00000012",
		func(b []byte) ([]byte, error) { return ParseFETH(b) },
		func(b []byte) { FETH(b).Set(2, 1) },
		func(t *testing.T, b []byte) {
			equal(t, "placement", FETH(b).Placement(), 2)
			equal(t, "selectivity", FETH(b).Selectivity(), 1)
		},
	},
	{
		"SACK", "8000000000000000 0000000000000005",
		func(b []byte) ([]byte, error) { return ParseSACK(b) },
		func(b []byte) { SACK(b).SetBits(1<<63, 5) },
		func(t *testing.T, b []byte) {
			hi, lo := SACK(b).Bits()
			equal(t, "hi", hi, 1<<63)
			equal(t, "lo", lo, 5)
			for i := -1; i <= 128; i++ {
				equal(t, "bit", SACK(b).Has(i), i == 0 || i == 2 || i == 127)
			}
		},
	},
	{
		"CreditGrant", "0001 0003 01020304 11223344 a1a2 0000 00000000 3b9aca00 0000000000000000",
		func(b []byte) ([]byte, error) { return ParseCreditGrant(b) },
		func(b []byte) {
			CreditGrant(b).Set(CreditFields{CreditOpen | CreditRecall, 0x01020304, 0x11223344, 0xa1a2}, 1_000_000_000)
		},
		func(t *testing.T, b []byte) {
			h := CreditGrant(b)
			equal(t, "version", h.Version(), CreditVersion)
			equal(t, "fields", h.Fields(), CreditFields{3, 0x01020304, 0x11223344, 0xa1a2})
			equal(t, "life", h.LifeNs(), 1_000_000_000)
		},
	},
	{
		"CreditReturn", "0001 0003 01020304 11223344 a1a2 0000 51525354 61626364 0000000000000000",
		func(b []byte) ([]byte, error) { return ParseCreditReturn(b) },
		func(b []byte) {
			CreditReturn(b).Set(CreditFields{CreditExpired | CreditUnknown, 0x01020304, 0x11223344, 0xa1a2}, 0x51525354, 0x61626364)
		},
		func(t *testing.T, b []byte) {
			h := CreditReturn(b)
			equal(t, "version", h.Version(), CreditVersion)
			equal(t, "fields", h.Fields(), CreditFields{3, 0x01020304, 0x11223344, 0xa1a2})
			equal(t, "sent", h.Sent(), 0x51525354)
			equal(t, "void", h.Void(), 0x61626364)
		},
	},
	{
		"RateLimit", "0001 0000 01020304 0000000002faf080 000000003b9aca00 0000000000000000",
		func(b []byte) ([]byte, error) { return ParseRateLimit(b) },
		func(b []byte) { RateLimit(b).Set(RateLimitFields{0x01020304, 50e6, 1e9}) },
		func(t *testing.T, b []byte) {
			equal(t, "version", RateLimit(b).Version(), RateLimitVersion)
			equal(t, "fields", RateLimit(b).Fields(), RateLimitFields{0x01020304, 50_000_000, 1_000_000_000})
		},
	},
	{
		"OETH", "1d abcdef 01020304 1112131415161718 cafe0001 00001000",
		func(b []byte) ([]byte, error) { return ParseOETH(b) },
		func(b []byte) { OETH(b).Set(goldenOOO.OETH) },
		func(t *testing.T, b []byte) {
			equal(t, "version", OETH(b).Version(), OETHVersion)
			equal(t, "fields", OETH(b).Fields(), goldenOOO.OETH)
		},
	},
	{
		"OACK", "01020304 a1a2a3 00 b1b2c0 00 8000000000000005 0100 fffe c1c2c3c4",
		func(b []byte) ([]byte, error) { return ParseOACK(b) },
		func(b []byte) { OACK(b).Set(goldenOOO.OACK) },
		func(t *testing.T, b []byte) { equal(t, "fields", OACK(b).Fields(), goldenOOO.OACK) },
	},
	{
		"ONotify", "01020304 d1d2d3d4 e1e2e3e4e5e6e7e8 f1f2f3f4 00000001",
		func(b []byte) ([]byte, error) { return ParseONotify(b) },
		func(b []byte) { ONotify(b).Set(goldenOOO.Notify) },
		func(t *testing.T, b []byte) { equal(t, "fields", ONotify(b).Fields(), goldenOOO.Notify) },
	},
	{
		"ONotifyAck", "01020304 c1c2c3c4",
		func(b []byte) ([]byte, error) { return ParseONotifyAck(b) },
		func(b []byte) { ONotifyAck(b).Set(goldenOOO.NotifyAck) },
		func(t *testing.T, b []byte) { equal(t, "fields", ONotifyAck(b).Fields(), goldenOOO.NotifyAck) },
	},
	{
		"ONak", "01020304 20 000000",
		func(b []byte) ([]byte, error) { return ParseONak(b) },
		func(b []byte) { ONak(b).Set(goldenOOO.Nak) },
		func(t *testing.T, b []byte) { equal(t, "fields", ONak(b).Fields(), goldenOOO.Nak) },
	},
}

var goldenOOO = OOOFields{
	OETH:      OETHFields{OFirst | ORetry | OSolicited, 0xABCDEF, 0x01020304, 0x1112131415161718, 0xCAFE0001, 4096},
	OACK:      OACKFields{0x01020304, 0xA1A2A3, 0xB1B2C0, 1<<63 | 5, 256, 0xFFFE, 0xC1C2C3C4},
	Notify:    ONotifyFields{0x01020304, 0xD1D2D3D4, 0xE1E2E3E4E5E6E7E8, 0xF1F2F3F4, ONotifySolicited},
	NotifyAck: ONotifyAckFields{0x01020304, 0xC1C2C3C4},
	Nak:       ONakFields{0x01020304, ONakNotReady},
}

func TestONakCodeNames(t *testing.T) {
	for code, want := range map[ONakCode]string{1: "invalid request", 2: "remote access", 3: "remote operation", 0x20: "not ready", 0: "code 0", 4: "code 4"} {
		equal(t, "name", code.String(), want)
	}
}

// An OETH of another version is none.
func TestOETHVersion(t *testing.T) {
	d := Datagram{Src: src4, Dst: dst4, Opcode: OpOWrite, OOO: &goldenOOO, Payload: []byte("data")}
	b, err := d.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	for version := range byte(16) {
		b[20+8+12] = version<<4 | 1
		p, err := ParseIP(b)
		if err != nil || (p.OETH() != nil) != (version == OETHVersion) {
			t.Errorf("version %d: %x, %v", version, []byte(p.OETH()), err)
		}
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func TestHeaders(t *testing.T) {
	for _, h := range headers {
		t.Run(h.name, func(t *testing.T) {
			wire := testkit.Unhex(t, h.wire)
			view, err := h.parse(append(bytes.Clone(wire), 0xEE))
			if err != nil || !bytes.Equal(view, wire) || cap(view) != len(wire) {
				t.Fatalf("parse = %x (cap %d), %v", view, cap(view), err)
			}
			h.read(t, view)

			out := make([]byte, len(wire))
			h.write(out)
			if !bytes.Equal(out, wire) {
				t.Errorf("written %x, want %x", out, wire)
			}
			for n := range wire {
				if v, err := h.parse(wire[:n]); err != ErrShort || v != nil {
					t.Errorf("%d bytes: %x, %v; want ErrShort", n, v, err)
				}
			}
		})
	}
}

// A setter must leave its neighbours alone, whatever they hold.
func TestBTHSettersTouchOnlyTheirBits(t *testing.T) {
	for _, fill := range []byte{0x00, 0xFF} {
		orig := bytes.Repeat([]byte{fill}, BTHLen)
		h := BTH(bytes.Clone(orig))
		h.SetSolicited(fill == 0)
		h.SetSolicited(fill != 0)
		h.SetMigReq(fill == 0)
		h.SetMigReq(fill != 0)
		h.SetPadCount(2)
		h.SetPadCount(int(fill & 3))
		h.SetFECN(fill == 0)
		h.SetFECN(fill != 0)
		h.SetBECN(fill == 0)
		h.SetBECN(fill != 0)
		h.SetAckReq(fill == 0)
		h.SetAckReq(fill != 0)
		h.SetPSN(0x123456)
		h.SetPSN(PSN(uint32(fill) * 0x10101))
		h.SetDestQP(0x123456)
		h.SetDestQP(uint32(fill) * 0x10101)
		if !bytes.Equal(h, orig) {
			t.Errorf("fill %02x: %x after setting and restoring every field", fill, []byte(h))
		}
	}
}

func TestSyndrome(t *testing.T) {
	for _, c := range []struct {
		wire byte
		typ  AckType
		text string
	}{
		{0x00, AckPositive, "ACK"}, {0x1F, AckPositive, "ACK"}, {0x0D, AckPositive, "ACK"},
		{0x20, AckRNR, "RNR"}, {0x3F, AckRNR, "RNR"},
		{0x60, AckNAK, "NAK(PSN)"}, {0x61, AckNAK, "NAK(invalid request)"},
		{0x62, AckNAK, "NAK(access)"}, {0x63, AckNAK, "NAK(operation)"}, {0x7F, AckNAK, "NAK"},
		{0x40, AckReserved, "AETH?"}, {0xE0, 7, "AETH?"},
	} {
		s := Syndrome(c.wire)
		if s.Type() != c.typ || s.String() != c.text {
			t.Errorf("%02x: type %d %q, want %d %q", c.wire, s.Type(), s, c.typ, c.text)
		}
	}
	equal(t, "ACK, no credits", SyndromeACK(CreditInvalid), 0x1F)
	equal(t, "RNR", SyndromeRNR(14), 0x2E)
	equal(t, "NAK", SyndromeNAK(NAKRemoteAccess), 0x62)
	if c, ok := Syndrome(0x62).NAK(); !ok || c != NAKRemoteAccess {
		t.Errorf("NAK code %v, %v", c, ok)
	}
	if _, ok := Syndrome(0x02).NAK(); ok {
		t.Error("an ACK has a NAK code")
	}
}

func TestRNRTime(t *testing.T) {
	for code, want := range map[uint8]time.Duration{
		0: 655360 * time.Microsecond, 1: 10 * time.Microsecond, 5: 60 * time.Microsecond,
		13: 960 * time.Microsecond, 26: 81920 * time.Microsecond, 31: 491520 * time.Microsecond,
	} {
		equal(t, "RNR time", RNRTime(code), want)
	}
	for c := uint8(2); c < 32; c++ {
		if RNRTime(c) <= RNRTime(c-1) {
			t.Errorf("code %d is not longer than its predecessor", c)
		}
	}
}

func TestCredits(t *testing.T) {
	for code, want := range map[uint8]int{0: 0, 4: 4, 5: 6, 10: 32, 20: 1024, 30: 32768} {
		n, ok := SyndromeACK(code).Credits()
		if !ok || n != want {
			t.Errorf("code %d: %d credits, %v; want %d", code, n, ok, want)
		}
		equal(t, "code", CreditCode(want), code)
	}
	equal(t, "code of 5", CreditCode(5), 4)
	equal(t, "code of a million", CreditCode(1e6), 30)
	equal(t, "code of -1", CreditCode(-1), 0)
	for _, s := range []Syndrome{SyndromeACK(CreditInvalid), SyndromeRNR(3), SyndromeNAK(0)} {
		if _, ok := s.Credits(); ok {
			t.Errorf("syndrome %02x grants credits", uint8(s))
		}
	}
}
