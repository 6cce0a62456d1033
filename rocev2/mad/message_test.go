// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
)

// wire turns bytes in hex into a MAD; zeros fill up what is missing.
func wire(t testing.TB, s string) []byte {
	t.Helper()
	b := testkit.Unhex(t, s)
	if len(b) > Len {
		t.Fatal(len(b))
	}
	return append(b, make([]byte, Len-len(b))...)
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

var (
	v4a, v4b = netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("10.1.2.4")
	v6a, v6b = netip.MustParseAddr("fd77::1"), netip.MustParseAddr("fd77::2")
)

const tid = 0x1122334455667788

// head is the MAD header of the golden messages; the attribute ID follows it.
const head = "01 07 02 03 0000 0000 1122334455667788 "

// messages holds golden bytes of every message, written field by field from the tables of the
// specification; write must produce them, read must see its values.
var messages = []struct {
	attr  Attr
	wire  string
	parse func([]byte) (Header, error)
	write func(t *testing.T) Header
	read  func(t *testing.T, h Header)
}{
	{
		AttrREQ, head + "0010 0000 00000000" +
			"a1a2a3a4 00000000 0000000001061c06 5152535455565758 00000000 00000000" +
			"00abcd03 00000004 000000a3 00c0de96 8001 3d cd ffff ffff" +
			"00000000000000000000ffff0a010203 00000000000000000000ffff0a010204" +
			"98765000 1b 40 00 88" + strings.Repeat("00", 44) + "010203",
		func(b []byte) (Header, error) { m, err := ParseREQ(b); return m.Header, err },
		func(t *testing.T) Header {
			m := NewREQ(tid)
			m.SetLocalCommID(0xa1a2a3a4)
			m.SetServiceID(IPServiceID(PortTCP, 7174))
			m.SetCAGUID(0x5152535455565758)
			m.SetQPN(0xabcd)
			m.SetResponderResources(3)
			m.SetInitiatorDepth(4)
			m.SetRemoteResponseTimeout(20)
			m.SetService(ServiceUC)
			m.SetFlowControl(true)
			m.SetPSN(0xc0de)
			m.SetLocalResponseTimeout(18)
			m.SetRetryCount(6)
			m.SetPKey(0x8001)
			m.SetPMTU(rocev2.PMTU1024)
			m.SetRNRRetry(5)
			m.put8(74, m.u8(74)|8) // RDC exists
			m.SetMaxRetries(12)
			m.SetSRQ(true)
			m.SetExtendedTransport(5)
			m.SetPath(v4a, v4b)
			m.SetFlowLabel(0x98765)
			m.SetTrafficClass(0x1b)
			m.SetHopLimit(64)
			m.SetAckTimeout(17)
			equal(t, "private", m.SetPrivateData([]byte{1, 2, 3}), nil)
			equal(t, "too much", m.SetPrivateData(make([]byte, REQPrivateLen+1)), error(ErrPrivate))
			return m.Header
		},
		func(t *testing.T, h Header) {
			m := REQ{h}
			equal(t, "comm ID", m.LocalCommID(), 0xa1a2a3a4)
			equal(t, "service ID", m.ServiceID(), 0x01061c06)
			equal(t, "GUID", m.CAGUID(), 0x5152535455565758)
			equal(t, "QPN", m.QPN(), 0xabcd)
			equal(t, "responder resources", m.ResponderResources(), 3)
			equal(t, "initiator depth", m.InitiatorDepth(), 4)
			equal(t, "remote timeout", m.RemoteResponseTimeout(), 20)
			equal(t, "service", m.Service(), ServiceUC)
			equal(t, "flow control", m.FlowControl(), true)
			equal(t, "PSN", m.PSN(), 0xc0de)
			equal(t, "local timeout", m.LocalResponseTimeout(), 18)
			equal(t, "retry", m.RetryCount(), 6)
			equal(t, "P_Key", m.PKey(), 0x8001)
			equal(t, "PMTU", m.PMTU(), rocev2.PMTU1024)
			equal(t, "RNR retry", m.RNRRetry(), 5)
			equal(t, "retries", m.MaxRetries(), 12)
			equal(t, "SRQ", m.SRQ(), true)
			equal(t, "extended", m.ExtendedTransport(), 5)
			equal(t, "local GID", m.LocalGID(), v4a)
			equal(t, "remote GID", m.RemoteGID(), v4b)
			equal(t, "flow label", m.FlowLabel(), 0x98765)
			equal(t, "traffic class", m.TrafficClass(), 0x1b)
			equal(t, "hop limit", m.HopLimit(), 64)
			equal(t, "ACK timeout", m.AckTimeout(), 17)
			equal(t, "private", string(m.PrivateData()[:4]), "\x01\x02\x03\x00")
			equal(t, "private length", len(m.PrivateData()), 92)
		},
	},
	{
		AttrMRA, head + "0011 0000 00000000 a1a2a3a4 b1b2b3b4 40 c0 07",
		func(b []byte) (Header, error) { m, err := ParseMRA(b); return m.Header, err },
		func(t *testing.T) Header {
			m := NewMRA(tid, 0xa1a2a3a4, 0xb1b2b3b4, KindREP)
			m.SetServiceTimeout(24)
			m.PrivateData()[0] = 7
			return m.Header
		},
		func(t *testing.T, h Header) {
			m := MRA{Pair{h}}
			pairIs(t, m.Pair)
			equal(t, "message", m.Message(), KindREP)
			equal(t, "timeout", m.ServiceTimeout(), 24)
			equal(t, "private length", len(m.PrivateData()), 222)
			equal(t, "private", m.PrivateData()[0], 7)
		},
	},
	{
		AttrREJ, head + "0012 0000 00000000 a1a2a3a4 b1b2b3b4 80 10 001a 0102030405060708" + strings.Repeat("00", 64) + "09",
		func(b []byte) (Header, error) { m, err := ParseREJ(b); return m.Header, err },
		func(t *testing.T) Header {
			m := NewREJ(tid, 0xa1a2a3a4, 0xb1b2b3b4, KindOther, ReasonInvalidMTU)
			equal(t, "info", m.SetInfo([]byte{1, 2, 3, 4, 5, 6, 7, 8}), nil)
			equal(t, "too much info", m.SetInfo(make([]byte, 73)), error(ErrPrivate))
			equal(t, "private", m.SetPrivateData([]byte{9}), nil)
			equal(t, "too much", m.SetPrivateData(make([]byte, REJPrivateLen+1)), error(ErrPrivate))
			return m.Header
		},
		func(t *testing.T, h Header) {
			m := REJ{Pair{h}}
			pairIs(t, m.Pair)
			equal(t, "message", m.Message(), KindOther)
			equal(t, "reason", m.Reason(), ReasonInvalidMTU)
			equal(t, "info", string(m.Info()), "\x01\x02\x03\x04\x05\x06\x07\x08")
			equal(t, "private length", len(m.PrivateData()), 148)
			equal(t, "private", m.PrivateData()[0], 9)
		},
	},
	{
		AttrREP, head + "0013 0000 00000000 a1a2a3a4 b1b2b3b4 00000000 12345600 00000000 65432100 08 09 79 b0 5152535455565758 0102",
		func(b []byte) (Header, error) { m, err := ParseREP(b); return m.Header, err },
		func(t *testing.T) Header {
			m := NewREP(tid, 0xa1a2a3a4, 0xb1b2b3b4)
			m.SetQPN(0x123456)
			m.SetPSN(0x654321)
			m.SetResponderResources(8)
			m.SetInitiatorDepth(9)
			m.SetTargetAckDelay(15)
			m.SetFlowControl(true)
			m.SetRNRRetry(5)
			m.SetSRQ(true)
			m.SetCAGUID(0x5152535455565758)
			equal(t, "private", m.SetPrivateData([]byte{1, 2}), nil)
			equal(t, "too much", m.SetPrivateData(make([]byte, REPPrivateLen+1)), error(ErrPrivate))
			return m.Header
		},
		func(t *testing.T, h Header) {
			m := REP{Pair{h}}
			pairIs(t, m.Pair)
			equal(t, "QPN", m.QPN(), 0x123456)
			equal(t, "PSN", m.PSN(), 0x654321)
			equal(t, "responder resources", m.ResponderResources(), 8)
			equal(t, "initiator depth", m.InitiatorDepth(), 9)
			equal(t, "ACK delay", m.TargetAckDelay(), 15)
			equal(t, "flow control", m.FlowControl(), true)
			equal(t, "RNR retry", m.RNRRetry(), 5)
			equal(t, "SRQ", m.SRQ(), true)
			equal(t, "GUID", m.CAGUID(), 0x5152535455565758)
			equal(t, "private length", len(m.PrivateData()), 196)
			equal(t, "private", m.PrivateData()[1], 2)
		},
	},
	{
		AttrRTU, head + "0014 0000 00000000 a1a2a3a4 b1b2b3b4 07",
		func(b []byte) (Header, error) { m, err := ParseRTU(b); return m.Header, err },
		func(t *testing.T) Header {
			m := NewRTU(tid, 0xa1a2a3a4, 0xb1b2b3b4)
			equal(t, "private", m.SetPrivateData([]byte{7}), nil)
			equal(t, "too much", m.SetPrivateData(make([]byte, RTUPrivateLen+1)), error(ErrPrivate))
			return m.Header
		},
		func(t *testing.T, h Header) {
			pairIs(t, RTU{Pair{h}}.Pair)
			equal(t, "private length", len(RTU{Pair{h}}.PrivateData()), 224)
			equal(t, "private", RTU{Pair{h}}.PrivateData()[0], 7)
		},
	},
	{
		AttrDREQ, head + "0015 0000 00000000 a1a2a3a4 b1b2b3b4 123456 00 07",
		func(b []byte) (Header, error) { m, err := ParseDREQ(b); return m.Header, err },
		func(t *testing.T) Header {
			m := NewDREQ(tid, 0xa1a2a3a4, 0xb1b2b3b4, 0x123456)
			equal(t, "private", m.SetPrivateData([]byte{7}), nil)
			equal(t, "too much", m.SetPrivateData(make([]byte, DREQPrivateLen+1)), error(ErrPrivate))
			return m.Header
		},
		func(t *testing.T, h Header) {
			m := DREQ{Pair{h}}
			pairIs(t, m.Pair)
			equal(t, "QPN", m.RemoteQPN(), 0x123456)
			equal(t, "private length", len(m.PrivateData()), 220)
			equal(t, "private", m.PrivateData()[0], 7)
		},
	},
	{
		AttrDREP, head + "0016 0000 00000000 a1a2a3a4 b1b2b3b4 07",
		func(b []byte) (Header, error) { m, err := ParseDREP(b); return m.Header, err },
		func(t *testing.T) Header {
			m := NewDREP(tid, 0xa1a2a3a4, 0xb1b2b3b4)
			equal(t, "private", m.SetPrivateData([]byte{7}), nil)
			equal(t, "too much", m.SetPrivateData(make([]byte, DREPPrivateLen+1)), error(ErrPrivate))
			return m.Header
		},
		func(t *testing.T, h Header) {
			pairIs(t, DREP{Pair{h}}.Pair)
			equal(t, "private length", len(DREP{Pair{h}}.PrivateData()), 224)
			equal(t, "private", DREP{Pair{h}}.PrivateData()[0], 7)
		},
	},
	{
		AttrSIDRREQ, head + "0017 0000 00000000 a1a2a3a4 ffff 0000 0000000001110050 07",
		func(b []byte) (Header, error) { m, err := ParseSIDRREQ(b); return m.Header, err },
		func(t *testing.T) Header {
			m := NewSIDRREQ(tid, 0xa1a2a3a4, IPServiceID(PortUDP, 80))
			equal(t, "private", m.SetPrivateData([]byte{7}), nil)
			equal(t, "too much", m.SetPrivateData(make([]byte, SIDRREQPrivateLen+1)), error(ErrPrivate))
			return m.Header
		},
		func(t *testing.T, h Header) {
			m := SIDRREQ{h}
			equal(t, "request", m.RequestID(), 0xa1a2a3a4)
			equal(t, "P_Key", m.PKey(), rocev2.DefaultPKey)
			equal(t, "service ID", m.ServiceID(), 0x01110050)
			equal(t, "private length", len(m.PrivateData()), 216)
			equal(t, "private", m.PrivateData()[0], 7)
		},
	},
	{
		AttrSIDRREP, head + "0018 0000 00000000 a1a2a3a4 02 00 0000 123456 00 0000000001110050 11223344" + strings.Repeat("00", 72) + "07",
		func(b []byte) (Header, error) { m, err := ParseSIDRREP(b); return m.Header, err },
		func(t *testing.T) Header {
			m := NewSIDRREP(tid, 0xa1a2a3a4, SIDRReject, IPServiceID(PortUDP, 80))
			m.SetQP(0x123456, 0x11223344)
			equal(t, "private", m.SetPrivateData([]byte{7}), nil)
			equal(t, "too much", m.SetPrivateData(make([]byte, SIDRREPPrivateLen+1)), error(ErrPrivate))
			return m.Header
		},
		func(t *testing.T, h Header) {
			m := SIDRREP{h}
			equal(t, "request", m.RequestID(), 0xa1a2a3a4)
			equal(t, "status", m.Status(), SIDRReject)
			equal(t, "QPN", m.QPN(), 0x123456)
			equal(t, "Q_Key", m.QKey(), 0x11223344)
			equal(t, "service ID", m.ServiceID(), 0x01110050)
			equal(t, "private length", len(m.PrivateData()), 136)
			equal(t, "private", m.PrivateData()[0], 7)
		},
	},
}

func pairIs(t *testing.T, p Pair) {
	t.Helper()
	equal(t, "local comm ID", p.LocalCommID(), 0xa1a2a3a4)
	equal(t, "remote comm ID", p.RemoteCommID(), 0xb1b2b3b4)
}

func TestMessages(t *testing.T) {
	for _, m := range messages {
		t.Run(m.attr.String(), func(t *testing.T) {
			golden := wire(t, m.wire)
			h, err := m.parse(golden)
			if err != nil || !bytes.Equal(h, golden) || cap(h) != Len {
				t.Fatalf("parse = %x, %v", h, err)
			}
			equal(t, "attribute", h.Attr(), m.attr)
			equal(t, "transaction", h.TID(), tid)
			equal(t, "status", h.Status(), 0)
			m.read(t, h)
			if got := m.write(t); !bytes.Equal(got, golden) {
				t.Errorf("written\n%x, want\n%x", []byte(got), golden)
			}
			for n := range golden {
				if h, err := m.parse(golden[:n]); err != ErrLength || h != nil {
					t.Errorf("%d bytes: %x, %v; want ErrLength", n, []byte(h), err)
				}
			}
			for at, want := range map[int]error{0: ErrVersion, 1: ErrClass, 2: ErrClass, 3: ErrMethod, 17: ErrAttr} {
				bad := bytes.Clone(golden)
				bad[at] ^= 0x20
				if h, err := m.parse(bad); err != want || h != nil {
					t.Errorf("byte %d wrong: %v, want %v", at, err, want)
				}
			}
			if _, err := m.parse(append(golden, 0)); err != ErrLength {
				t.Errorf("257 bytes: %v", err)
			}
		})
	}
}

// A setter leaves its neighbours alone, whatever they hold, and cuts what does not fit.
func TestREQSettersTouchOnlyTheirBits(t *testing.T) {
	for _, fill := range []byte{0x00, 0xFF} {
		orig := bytes.Repeat([]byte{fill}, Len)
		m := REQ{Header(bytes.Clone(orig))}
		m.SetQPN(^m.QPN())
		m.SetQPN(uint32(fill) * 0x10101)
		m.SetPSN(^m.PSN())
		m.SetPSN(rocev2.PSN(uint32(fill) * 0x10101))
		m.SetFlowLabel(^m.FlowLabel())
		m.SetFlowLabel(uint32(fill) * 0x10101)
		m.SetRemoteResponseTimeout(^fill)
		m.SetRemoteResponseTimeout(fill)
		m.SetService(Service(^fill))
		m.SetService(Service(fill))
		m.SetFlowControl(fill == 0)
		m.SetFlowControl(fill != 0)
		m.SetLocalResponseTimeout(^fill)
		m.SetLocalResponseTimeout(fill)
		m.SetRetryCount(^fill)
		m.SetRetryCount(fill)
		m.SetPMTU(rocev2.PMTU(^fill))
		m.SetPMTU(rocev2.PMTU(fill))
		m.SetRNRRetry(^fill)
		m.SetRNRRetry(fill)
		m.SetMaxRetries(^fill)
		m.SetMaxRetries(fill)
		m.SetSRQ(fill == 0)
		m.SetSRQ(fill != 0)
		m.SetAckTimeout(^fill)
		m.SetAckTimeout(fill)
		if !bytes.Equal(m.Header, orig) {
			t.Errorf("fill %02x: %x after changing and restoring every field", fill, []byte(m.Header))
		}
	}
}

// Private data that is replaced by less leaves nothing behind.
func TestPrivateDataIsCleared(t *testing.T) {
	m := NewREP(1, 2, 3)
	if err := m.SetPrivateData(bytes.Repeat([]byte{0xFF}, REPPrivateLen)); err != nil {
		t.Fatal(err)
	}
	if err := m.SetPrivateData([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if p := m.PrivateData(); p[0] != 1 || !bytes.Equal(p[1:], make([]byte, REPPrivateLen-1)) {
		t.Errorf("left: %x", p)
	}
}

// The length of a REJ's information may point beyond its area.
func TestREJInfoLength(t *testing.T) {
	m := NewREJ(1, 2, 3, KindREQ, ReasonTimeout)
	m.putBits(33, 1, 7, 127)
	equal(t, "length", len(m.Info()), REJInfoLen)
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		AttrREQ.String(): "REQ", AttrSIDRREP.String(): "SIDR_REP", Attr(0x19).String(): "attribute 0x19",
		ReasonTimeout.String(): "timeout", Reason(77).String(): "reason 77",
		SIDRNoQP.String(): "no queue pair available", SIDRStatus(9).String(): "status 9",
		ErrPrivate.Error(): "mad: too much private data: each message has a limit, see its PrivateLen constant",
		Error(99).Error():  "mad: unknown error",
	} {
		equal(t, "name", got, want)
	}
}
