// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"bytes"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/samples"
)

// capture is what Linux's rdma_cm sent for rping, over IPv4 and then over IPv6; its README.md
// says how it was taken.
const capture = "../testdata/captures/cm.pcap"

// captured are the datagrams of the capture to QPN 1.
func captured(t *testing.T) []rocev2.Packet {
	t.Helper()
	packets, _ := capturedAll(t)
	return packets
}

// capturedAll also returns the first RC packet that each address sent.
func capturedAll(t *testing.T) (packets []rocev2.Packet, first map[netip.Addr]rocev2.PSN) {
	t.Helper()
	first = map[netip.Addr]rocev2.PSN{}
	for i, frame := range samples.Frames(t, capture) {
		p, err := rocev2.ParseFrame(frame)
		if err != nil {
			t.Fatalf("packet %d: %v", i+1, err)
		}
		if p.BTH().DestQP() == QPN {
			packets = append(packets, p)
		} else if _, ok := first[p.Src()]; !ok && p.AETH() == nil { // an ACK has the number of the other end
			first[p.Src()] = p.BTH().PSN()
		}
	}
	if len(packets) != 10 {
		t.Fatalf("%d MADs, want 10", len(packets))
	}
	return packets, first
}

// The kernel's messages of a connection, from REQ to DREP, parse and belong together.
func TestCaptureOfLinux(t *testing.T) {
	packets, first := capturedAll(t)
	for i := 0; i < len(packets); i += 5 {
		for _, p := range packets[i : i+5] {
			equal(t, "opcode", p.Opcode(), rocev2.UDSendOnly)
			equal(t, "Q_Key", p.DETH().QKey(), QKey)
			equal(t, "source QP", p.DETH().SrcQP(), QPN)
		}
		p := packets[i]
		req, err := ParseREQ(p.Payload())
		if err != nil {
			t.Fatal(err)
		}
		rep, err := ParseREP(packets[i+1].Payload())
		if err != nil {
			t.Fatal(err)
		}
		rtu, err := ParseRTU(packets[i+2].Payload())
		if err != nil {
			t.Fatal(err)
		}
		dreq, err := ParseDREQ(packets[i+3].Payload())
		if err != nil {
			t.Fatal(err)
		}
		drep, err := ParseDREP(packets[i+4].Payload())
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "service", req.ServiceID(), IPServiceID(PortTCP, 7174))
		equal(t, "local GID", req.LocalGID(), p.Src())
		equal(t, "remote GID", req.RemoteGID(), p.Dst())
		equal(t, "PMTU", req.PMTU(), rocev2.PMTU1024)
		equal(t, "ACK timeout", req.AckTimeout(), 17)
		equal(t, "response timeout", req.RemoteResponseTimeout(), 20)
		equal(t, "retries", req.MaxRetries(), 15)
		equal(t, "hop limit", req.HopLimit(), 64)
		equal(t, "P_Key", req.PKey(), rocev2.DefaultPKey)
		d, _, err := ParseIPData(req.PrivateData())
		if err != nil || d.Src != p.Src() || d.Dst != p.Dst() || d.SrcPort == 0 {
			t.Errorf("addresses %v, %v", d, err)
		}
		a, b := req.LocalCommID(), rep.LocalCommID()
		for _, x := range []struct {
			Pair
			local, remote uint32
		}{{rep.Pair, b, a}, {rtu.Pair, a, b}, {dreq.Pair, a, b}, {drep.Pair, b, a}} {
			equal(t, "local comm ID of "+x.Attr().String(), x.LocalCommID(), x.local)
			equal(t, "remote comm ID of "+x.Attr().String(), x.RemoteCommID(), x.remote)
		}
		equal(t, "QPN of DREQ", dreq.RemoteQPN(), rep.QPN())
		// Each message has the number with which its receiver starts.
		equal(t, "PSN of REQ", req.PSN(), first[p.Dst()])
		equal(t, "PSN of REP", rep.PSN(), first[p.Src()])
		equal(t, "responder resources", rep.ResponderResources(), req.InitiatorDepth())
		equal(t, "ACK delay", rep.TargetAckDelay(), 15)
	}
}

// What Linux sent to our communication manager: also REJ and both messages of SIDR.
func TestCaptureOfLinuxWithUs(t *testing.T) {
	seen := map[Attr]Header{}
	var ours, theirs netip.Addr
	for i, frame := range samples.Frames(t, "testdata/linux.pcap") {
		p, err := rocev2.ParseFrame(frame)
		if err != nil || p.VerifyICRC() != nil {
			t.Fatalf("packet %d: %v", i+1, err)
		}
		h, err := Parse(p.Payload())
		if err != nil {
			t.Fatalf("packet %d: %v", i+1, err)
		}
		seen[h.Attr()] = h
		theirs, ours = p.Src(), p.Dst()
	}
	for a := AttrREQ; a <= AttrSIDRREP; a++ {
		if (seen[a] == nil) != (a == AttrMRA) {
			t.Fatalf("%s in the capture: %v", a, seen[a] != nil)
		}
	}
	rej := REJ{Pair{seen[AttrREJ]}}
	equal(t, "reason", rej.Reason(), ReasonInvalidServiceID)
	equal(t, "rejected", rej.Message(), KindREQ)
	equal(t, "information", len(rej.Info()), 0)

	ask := SIDRREQ{seen[AttrSIDRREQ]}
	equal(t, "service", ask.ServiceID(), IPServiceID(PortUDP, 7174))
	equal(t, "P_Key", ask.PKey(), rocev2.DefaultPKey)
	if d, _, err := ParseIPData(ask.PrivateData()); err != nil || d.Src != theirs || d.Dst != ours || d.SrcPort == 0 {
		t.Errorf("addresses %+v, %v", d, err)
	}
	tell := SIDRREP{seen[AttrSIDRREP]}
	equal(t, "status", tell.Status(), SIDRSuccess)
	equal(t, "service of the answer", tell.ServiceID(), IPServiceID(PortUDP, 7174))
	equal(t, "Q_Key of librdmacm's UDP ports", tell.QKey(), 0x01234567)
	if tell.QPN() < 2 {
		t.Errorf("QPN %#x", tell.QPN())
	}
}

// A REQ and a REP built from the fields of the kernel's are the same bytes, so that no field that
// the kernel sets is missing here. What is not a field of ours are flow label and packet rate.
func TestCaptureRebuilt(t *testing.T) {
	for _, p := range captured(t) {
		var got Header
		switch h, _ := Parse(p.Payload()); h.Attr() {
		case AttrREQ:
			m, n := REQ{h}, NewREQ(h.TID())
			n.SetLocalCommID(m.LocalCommID())
			n.SetServiceID(m.ServiceID())
			n.SetCAGUID(m.CAGUID())
			n.SetQPN(m.QPN())
			n.SetResponderResources(m.ResponderResources())
			n.SetInitiatorDepth(m.InitiatorDepth())
			n.SetRemoteResponseTimeout(m.RemoteResponseTimeout())
			n.SetPSN(m.PSN())
			n.SetLocalResponseTimeout(m.LocalResponseTimeout())
			n.SetRetryCount(m.RetryCount())
			n.SetPMTU(m.PMTU())
			n.SetRNRRetry(m.RNRRetry())
			n.SetMaxRetries(m.MaxRetries())
			n.SetPath(p.Src(), p.Dst())
			copy(n.Header[112:116], h[112:116])
			n.SetHopLimit(m.HopLimit())
			n.SetAckTimeout(m.AckTimeout())
			d, rest, err := ParseIPData(m.PrivateData())
			if err != nil {
				t.Fatal(err)
			}
			private, err := d.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := n.SetPrivateData(append(private, rest...)); err != nil {
				t.Fatal(err)
			}
			got = n.Header
		case AttrREP:
			m := REP{Pair{h}}
			n := NewREP(h.TID(), m.LocalCommID(), m.RemoteCommID())
			n.SetQPN(m.QPN())
			n.SetPSN(m.PSN())
			n.SetResponderResources(m.ResponderResources())
			n.SetInitiatorDepth(m.InitiatorDepth())
			n.SetTargetAckDelay(m.TargetAckDelay())
			n.SetRNRRetry(m.RNRRetry())
			n.SetCAGUID(m.CAGUID())
			got = n.Header
		case AttrRTU:
			got = NewRTU(h.TID(), Pair{h}.LocalCommID(), Pair{h}.RemoteCommID()).Header
		case AttrDREQ:
			got = NewDREQ(h.TID(), Pair{h}.LocalCommID(), Pair{h}.RemoteCommID(), DREQ{Pair{h}}.RemoteQPN()).Header
		case AttrDREP:
			got = NewDREP(h.TID(), Pair{h}.LocalCommID(), Pair{h}.RemoteCommID()).Header
		}
		if !bytes.Equal(got, p.Payload()) {
			t.Errorf("rebuilt\n%x, the kernel has\n%x", []byte(got), p.Payload())
		}
	}
}

// tshark, written by others from the specification, reads the same values from the kernel's REQ
// and REP. Version 4.0 does not know MRA, and reads another flow label than the kernel wrote.
func TestTsharkAgrees(t *testing.T) {
	require.Command(t, "tshark")
	fields := []struct {
		name string
		req  func(REQ) any
		rep  func(REP) any
	}{
		{"mad.transactionid", func(m REQ) any { return m.TID() }, func(m REP) any { return m.TID() }},
		{"cm.req.localcaguid", func(m REQ) any { return m.CAGUID() }, nil},
		{"cm.req.localqpn", func(m REQ) any { return m.QPN() }, nil},
		{"cm.req.responderres", func(m REQ) any { return m.ResponderResources() }, nil},
		{"cm.req.initdepth", func(m REQ) any { return m.InitiatorDepth() }, nil},
		{"cm.req.remoteresptout", func(m REQ) any { return m.RemoteResponseTimeout() }, nil},
		{"cm.req.transpsvctype", func(m REQ) any { return uint8(m.Service()) }, nil},
		{"cm.req.startpsn", func(m REQ) any { return uint32(m.PSN()) }, nil},
		{"cm.req.localresptout", func(m REQ) any { return m.LocalResponseTimeout() }, nil},
		{"cm.req.retrcount", func(m REQ) any { return m.RetryCount() }, nil},
		{"cm.req.pkey", func(m REQ) any { return m.PKey() }, nil},
		{"cm.req.pppmtu", func(m REQ) any { return uint8(m.PMTU()) }, nil},
		{"cm.req.rnrretrcount", func(m REQ) any { return m.RNRRetry() }, nil},
		{"cm.req.maxcmretr", func(m REQ) any { return m.MaxRetries() }, nil},
		{"cm.req.prim_hoplim", func(m REQ) any { return m.HopLimit() }, nil},
		{"cm.req.prim_localacktout", func(m REQ) any { return m.AckTimeout() }, nil},
		{"cm.req.ip_cm.sport", func(m REQ) any { d, _, _ := ParseIPData(m.PrivateData()); return d.SrcPort }, nil},
		{"cm.rep.remotecommid", nil, func(m REP) any { return m.RemoteCommID() }},
		{"cm.rep.localqpn", nil, func(m REP) any { return m.QPN() }},
		{"cm.rep.startpsn", nil, func(m REP) any { return uint32(m.PSN()) }},
		{"cm.rep.respres", nil, func(m REP) any { return m.ResponderResources() }},
		{"cm.rep.initdepth", nil, func(m REP) any { return m.InitiatorDepth() }},
		{"cm.rep.tgtackdelay", nil, func(m REP) any { return m.TargetAckDelay() }},
		{"cm.rep.rnrretrcount", nil, func(m REP) any { return m.RNRRetry() }},
		{"cm.rep.localcaguid", nil, func(m REP) any { return m.CAGUID() }},
	}
	args := []string{"-r", capture, "-Y", "infiniband.mad.attributeid == 0x10 || infiniband.mad.attributeid == 0x13", "-T", "fields", "-E", "separator=|"}
	for _, f := range fields {
		args = append(args, "-e", "infiniband."+f.name)
	}
	var stderr bytes.Buffer
	cmd := exec.Command("tshark", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, stderr.Bytes())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, p := range captured(t) {
		h, err := Parse(p.Payload())
		if err != nil {
			t.Fatal(err)
		}
		if h.Attr() != AttrREQ && h.Attr() != AttrREP {
			continue
		}
		if len(lines) == 0 {
			t.Fatal("tshark shows fewer messages")
		}
		theirs := strings.Split(lines[0], "|")
		lines = lines[1:]
		for i, f := range fields {
			var ours any
			switch {
			case h.Attr() == AttrREQ && f.req != nil:
				ours = f.req(REQ{h})
			case h.Attr() == AttrREP && f.rep != nil:
				ours = f.rep(REP{Pair{h}})
			default:
				continue
			}
			if got := number(t, theirs[i]); got != fmt.Sprint(ours) {
				t.Errorf("%s: tshark reads %s, we %v", f.name, got, ours)
			}
		}
	}
	if len(lines) != 0 {
		t.Errorf("tshark shows more messages: %q", lines)
	}
}

// number is tshark's decimal or hexadecimal number in decimal.
func number(t *testing.T, s string) string {
	t.Helper()
	var n uint64
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatalf("tshark printed %q: %v", s, err)
	}
	return fmt.Sprint(n)
}
