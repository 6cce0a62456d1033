// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/samples"
)

// A million spoofed sources, with stamps and echoes, fill nothing: the table
// keeps its entries and their registers, and no event reaches the agent.
func TestSpoofedFlood(t *testing.T) {
	const sources = 1_000_000
	l := newLab(t)
	l.know(peer4, aware)
	l.know(peer6, aware)
	before4, before6 := l.regs(peer4), l.regs(peer6)
	f := fromPeer(t, stamped(write(64), rocev2.Stamp{Flags: 15, T1: 1, EchoT1: 2, EchoT2: 3, Credit: 4}))
	o := ebpf.RunOptions{Data: f, DataOut: make([]byte, len(f))}
	for i := range uint32(sources) {
		binary.BigEndian.PutUint32(f[offIP+12:], 11<<24+i)
		o.DataOut = o.DataOut[:len(f)]
		if verdict, err := l.objs.SoftroceIngress.Run(&o); verdict != xdpPass || err != nil {
			t.Fatal(verdict, err)
		}
	}
	if n := l.entries(); n != 2 || l.regs(peer4) != before4 || l.regs(peer6) != before6 {
		t.Errorf("%d entries\n%+v\n%+v", n, l.regs(peer4), l.regs(peer6))
	}
	if c := l.counters(); c["rx_unknown_peer"] != sources || c["rx_stamped"] != sources {
		t.Error(c)
	}
	l.wantNoEvent()

	// The live peers are served as before.
	_, out := l.in(fromPeer(t, stamped(write(64), someStamp)))
	if !bytes.Equal(out, fromPeer(t, write(64))) || l.regs(peer4).RxPackets != 1 {
		t.Error("the flood left something behind")
	}
}

// forged are packets with the address of a peer from a host that does not receive there: all
// with a right ICRC, and with every sign that a policy uses.
func forged(t testing.TB, v6 bool) (frames [][]byte) {
	nak := func(syndrome rocev2.Syndrome) rocev2.Datagram { d := ack(100); d.Syndrome = syndrome; return d }
	ce := write(64)
	ce.TOS = 3
	lies := rocev2.Stamp{Flags: 15, T1: labStart - 9e8, EchoT1: labStart - 8e8, EchoT2: labStart - 1, Credit: 1 << 30, CreditSeq: 9}
	plain := []rocev2.Datagram{nak(0x60), nak(0x62), nak(0x2e), ack(100), {Src: peer4, Dst: us4, Opcode: rocev2.CNP, DestQP: 17}, ce, write(64)}
	for _, d := range plain {
		if v6 {
			d = over6(d)
		}
		frames = append(frames, fromPeer(t, d))
		for _, token := range []uint64{0, 1, ^tokenOf(peerOf(v6)), tokenOf(us4)} {
			frames = append(frames, fromPeer(t, stamped(d, lies, token)))
		}
	}
	for _, d := range []rocev2.Datagram{hello(v6), helloAck(v6, 1), helloAck(v6, -nonceOf(peerOf(v6)))} {
		d.Hello.Caps = 0xffff
		frames = append(frames, fromPeer(t, stamped(d, lies, 1)), fromPeer(t, stamped(d, lies)))
	}
	grant := rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.OpCreditGrant, DestQP: rocev2.ControlQPN}
	if v6 {
		grant = over6(grant)
	}
	return append(frames, fromPeer(t, stamped(grant, lies, 1)))
}

// heeded are the registers of an entry that the programs, the agent or the engine use.
func heeded(d bpf.DestRegs) bpf.DestRegs {
	d.RxPackets, d.RxBytes, d.RxUnstamped = 0, 0, 0
	return d
}

// The same in the name of a peer that is known and stamps, in the middle of traffic: not a
// register changes that the policy, the pacer or the echo reads, the engine receives no
// stamp and no CE, and the agent gets no event but for a HELLO without its token.
func TestForgedInNameOfPeer(t *testing.T) {
	const packets = 30_000
	l := newLab(t)
	l.config(func(c *bpf.Config) { c.HelloRate = 2e9 })
	for _, v6 := range []bool{false, true} {
		l := l.with(t)
		l.know(peerOf(v6), aware, func(d *bpf.DestRegs) {
			d.LastTxNs, d.LastRxNs, d.LastEchoT1Ns, d.ValidAfterNs = labStart, labStart, labStart-5, labStart-9
			d.Flows[0] = bpf.SoftroceSrFlow{Psn: 100, Qpn: 16}
			d.ProbeNs, d.ProbePsn = labStart-10, 100
		})
		before, frames := l.regs(peerOf(v6)), forged(t, v6)
		for i := range packets {
			l.in(frames[i%len(frames)])
		}
		if got := l.regs(peerOf(v6)); heeded(got) != heeded(before) {
			t.Errorf("v6=%v: registers\n%+v before\n%+v after", v6, before, got)
		}
		if l.objs.Active.LookupAndDelete(nil, &bpf.DestKey{}) == nil {
			t.Error("the agent is told to judge the destination")
		}
		for e, ok := l.event(); ok; e, ok = l.event() {
			if e.Type != bpf.EventHello || e.Proven != 0 && e.Caps == uint32(bpf.CapStamp) {
				t.Fatalf("event %+v", e)
			}
		}
		c := l.counters()
		for _, name := range []string{"rx_token_wrong", "rx_unproven", "hello_ack_forged", "hello_answered"} {
			if c[name] < packets/100 {
				t.Errorf("%s counted %d of %d packets", name, c[name], packets)
			}
		}
		if c["rx_stamped"] != 0 || c["hello_ack"] != 0 {
			t.Errorf("believed: %v", c)
		}
	}
}

// A peer without stamps has no proof. Its CNPs and NAKs count only while they can belong to
// traffic of this host.
func TestForgedInNameOfPlainPeer(t *testing.T) {
	nak := func(psn rocev2.PSN) rocev2.Datagram { d := ack(psn); d.Syndrome = 0x60; return d }
	cnp := rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.CNP, DestQP: 17}
	l := newLab(t)
	for _, c := range []struct {
		name     string
		idle     uint64
		d        rocev2.Datagram
		believed bool
	}{
		{"NAK of the last PSN", 0, nak(5000), true},
		{"NAK of one before", 0, nak(1000), true},
		{"NAK of a PSN that was not sent yet", 0, nak(5001), false},
		{"NAK of a PSN that is long acknowledged", 0, nak(5000 - 4096), false},
		{"CNP while we send", 1e9 - 1, cnp, true},
		{"CNP when we have not sent for a second", 1e9, cnp, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			l.know(peer4, func(d *bpf.DestRegs) {
				d.LastTxNs, d.Flows[1] = labStart-c.idle, bpf.SoftroceSrFlow{Psn: 5000, Qpn: 17}
			})
			before := l.regs(peer4)
			l.in(fromPeer(t, c.d))
			after := l.regs(peer4)
			if believed := after.WinLoss+after.WinCe == 1; believed != c.believed {
				t.Errorf("believed: %v, want %v", believed, c.believed)
			}
			if n := l.counters()["rx_unproven"]; (n == 1) == c.believed {
				t.Errorf("rx_unproven counted %d", n)
			}
			before.LastRxNs = after.LastRxNs
			if !c.believed && heeded(after) != heeded(before) {
				t.Errorf("%+v", after)
			}
		})
	}
}

// A flood of HELLOs from as many sources gets the answers of one rate limit;
// the agent gets no event: the sources have not proved that they receive there.
func TestHelloFlood(t *testing.T) {
	const sources, rate, burst = 100_000, 1000, 65
	l := newLab(t)
	l.config(func(c *bpf.Config) { c.HelloRate = rate })
	oneCPU(t)
	d := hello(false)
	answered, events := 0, 0
	b := make([]byte, 0, 256)
	for i := range uint32(sources) {
		d.Src = addr4(11<<24 + i)
		datagram, err := d.AppendTo(b[:0])
		if err != nil {
			t.Fatal(err)
		}
		if verdict, _ := l.in(ethernet(usMAC, peerMAC, datagram)); verdict == xdpTX {
			answered++
		}
		l.at(labStart + uint64(i)*1000) // a million HELLOs a second
	}
	if l.counters()["hello_limited"] != uint64(sources-answered) {
		t.Error("not all HELLOs without an answer are counted")
	}
	samples.Counts(t, "HELLO", "hello_limited")
	for _, ok := l.event(); ok; _, ok = l.event() {
		events++
	}
	// It lasted 100 ms: the burst and a tenth of the rate.
	if want := burst + rate/10; answered < want-1 || answered > want+1 || events != 0 {
		t.Errorf("%d answers and %d events to %d HELLOs in 100 ms, want %d and none", answered, events, sources, want)
	}
	if n := l.entries(); n != 0 {
		t.Errorf("%d entries", n)
	}
}

// RATE_LIMITs in the name of a known peer and of 10 000 unknown hosts make no limit and no entry. Those of
// the peer itself make one limit, however many there are (S10).
func TestRateLimitFlood(t *testing.T) {
	l := newLab(t)
	l.know(peer4, aware)
	before := l.regs(peer4)
	d := rateLimit(false, rocev2.RateLimitFields{Epoch: 9, RateBps: 64e3, LifeNs: 10e9})
	lies := rocev2.Stamp{Flags: 15, T1: labStart - 9e8, EchoT1: labStart - 8e8, EchoT2: labStart - 1, Credit: 1 << 30, CreditSeq: 9}
	for i := range uint64(1000) {
		l.in(fromPeer(t, stamped(d, lies, i)))
	}
	for i := range uint32(10_000) {
		x := d
		x.Src = addr4(11<<24 + i)
		l.in(fromPeer(t, stamped(x, lies)))
	}
	if _, found := l.limitOf(peer4); found || l.entries() != 1 || l.regs(peer4) != before || l.limitWords().Received != 0 {
		t.Errorf("a limit: %v, %d entries, %+v", found, l.entries(), l.regs(peer4))
	}
	if c := l.counters(); c["rx_token_wrong"] != 1000 || c["rate_limit_unknown"] != 10_000 {
		t.Errorf("counted %v", c)
	}
	l.wantNoEvent()
	for i := range uint32(1000) {
		d.RateLimit.Epoch = 10 + i
		l.in(fromPeer(t, d))
	}
	if v, found := l.limitOf(peer4); !found || v.Received != 1000 || v.Epoch != 1009 || l.entries() != 1 {
		t.Errorf("the peer's own: %+v, %v, %d entries", v, found, l.entries())
	}
	active := 0
	for k := (bpf.DestKey{}); l.objs.Active.LookupAndDelete(nil, &k) == nil; {
		active++
	}
	if active != 1 {
		t.Errorf("%d times in the active queue", active)
	}
}
