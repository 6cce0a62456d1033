// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"testing"

	"github.com/softroce/softroce-xdp/cc/sim"
)

// pacer is one flow's on a path of 12 us at 100 Gb/s: 150000 bytes of wire or
// 120000 of payload, as a packet of 1000 bytes takes 1250 here.
func pacer() *sim.Pacer {
	return &sim.Pacer{Src: 1, Dst: 2, Flows: 1, Path: sim.Path{
		BaseRTTNs: 12_000, OneWayNs: 6_000, LinkBps: 100e9, MinBps: 100e9, Hops: 4, PayloadBytes: 1000, PacketBytes: 1250,
	}}
}

func control(t *testing.T, p *sim.Pacer, name string, params ...Param) sim.Control {
	t.Helper()
	s, err := New(name, params...)
	if err != nil {
		t.Fatal(err)
	}
	return s.NewControl(0, p)
}

func TestDCQCNCutsAtTheTimerAfterAMark(t *testing.T) {
	p := pacer()
	c := control(t, p, "dcqcn")
	if p.RateBps != 100e9 || p.WindowBytes != 120_000 || p.TimerNs != 0 {
		t.Fatalf("starts at %d bit/s, window %d, timer %d", p.RateBps, p.WindowBytes, p.TimerNs)
	}
	c.Ack(1_000, p, &sim.Ack{CE: 1, Bytes: 1000})
	if p.TimerNs != 5_000 {
		t.Fatalf("timer at %d, want 4 us after the mark", p.TimerNs)
	}
	c.Expire(5_000, p)
	// alpha is (255/256)^4 = .984466: the cut leaves .507767
	if p.RateBps/1e6 != 50_776 || p.WindowBytes != 60_932 {
		t.Errorf("after the cut %d bit/s, window %d", p.RateBps, p.WindowBytes)
	}
	if p.TimerNs != 305_000 {
		t.Errorf("timer at %d, want the increase 300 us after the cut", p.TimerNs)
	}
}

func TestWindowOfAnotherRoundTrip(t *testing.T) {
	p := pacer()
	control(t, p, "timely", Param{"base-rtt", "24us"})
	if p.WindowBytes != 240_000 {
		t.Errorf("window %d", p.WindowBytes)
	}
	p = pacer()
	control(t, p, "timely-no-window")
	if p.WindowBytes != 0 {
		t.Errorf("window %d without one", p.WindowBytes)
	}
}

func TestDCQCNPaperSendsCNPs(t *testing.T) {
	s, _ := New("dcqcn-paper")
	out := &fakeOut{path: pacer().Path}
	r := s.NewReceiver(2, out)
	f := &sim.Flow{ID: 7}
	for now := int64(0); now < 100_000; now += 1000 {
		r.Data(now, f, &sim.Data{CE: true}, &sim.Reply{})
	}
	if out.cnps != 2 {
		t.Errorf("%d CNPs in 100 us of marks, want one in 50 us", out.cnps)
	}
	p := pacer()
	c := s.NewControl(0, p)
	c.Ack(0, p, &sim.Ack{CE: 1})
	if p.RateBps != 100e9 {
		t.Error("cut without a CNP")
	}
	c.CNP(0, p, f)
	if p.RateBps != 50e9 {
		t.Errorf("%d bit/s after the first CNP", p.RateBps)
	}
}

func TestTimelyDecidesOncePerRound(t *testing.T) {
	p := pacer()
	c := control(t, p, "timely-no-window")
	for psn := range uint32(100) {
		c.Sent(0, p, nil, &sim.Data{PSN: psn})
	}
	c.Ack(0, p, &sim.Ack{PSN: 0, RTTNs: 100_000}) // the round ends beyond packet 99
	for psn := uint32(1); psn < 100; psn++ {
		c.Ack(0, p, &sim.Ack{PSN: psn, RTTNs: 110_000})
	}
	if p.RateBps != 100e9 {
		t.Fatalf("%d bit/s inside the round", p.RateBps)
	}
	c.Sent(0, p, nil, &sim.Data{PSN: 100})
	c.Ack(0, p, &sim.Ack{PSN: 100, RTTNs: 110_000})
	if p.RateBps != 65e9 {
		t.Errorf("%d bit/s after the round, want the cut of a gradient of .4375", p.RateBps)
	}
}

func TestHPCCReadsTelemetry(t *testing.T) {
	p := pacer()
	c := control(t, p, "hpcc", Param{"base-rtt", "12us"}, Param{"ai", "1"})
	if p.WindowBytes != 120_000 || p.RateBps != 100e9 {
		t.Fatalf("starts with window %d, %d bit/s", p.WindowBytes, p.RateBps)
	}
	c.Sent(0, p, nil, &sim.Data{PSN: 0})
	c.Ack(0, p, &sim.Ack{PSN: 0, INT: []sim.Hop{{QueueBytes: 75_000, RateBps: 100e9}}})
	// A round trip at line rate with half a product queued: U = 1.5.
	c.Ack(0, p, &sim.Ack{PSN: 1, INT: []sim.Hop{{QueueBytes: 75_000, TxBytes: 150_000, TsNs: 12_000, RateBps: 100e9}}})
	if want := int64(120_000 * .95 / 1.5); p.WindowBytes != want {
		t.Errorf("window %d, want %d", p.WindowBytes, want)
	}
}

func TestSwiftWindowIsWholePackets(t *testing.T) {
	p := pacer()
	control(t, p, "swift", Param{"start", "2.7"})
	if p.WindowBytes != 1701 || p.RateBps != 0 {
		t.Errorf("window %d, rate %d; want two packets and no pacing", p.WindowBytes, p.RateBps)
	}
	p = pacer()
	c := control(t, p, "swift", Param{"start", "1"}, Param{"target", "10us"}, Param{"fs-range", "1ns"})
	c.Ack(0, p, &sim.Ack{RTTNs: 1_000_000, Bytes: 1000})
	// Half a packet per millisecond, as 1250 bytes of wire.
	if p.WindowBytes != 1 || p.RateBps != 5_000_000 {
		t.Errorf("window %d, %d bit/s; want one packet in 2 ms", p.WindowBytes, p.RateBps)
	}
	if c := control(t, pacer(), "swift").(*swiftControl); c.flow.Cwnd() != 120 {
		t.Errorf("starts with %g packets, want one bandwidth-delay product", c.flow.Cwnd())
	}
}

func TestSwiftTakesTheTurnaroundOff(t *testing.T) {
	p := pacer()
	c := control(t, p, "swift", Param{"target", "20us"}).(*swiftControl)
	c.Ack(0, p, &sim.Ack{RTTNs: 500_000, T2: 1_000_000, T2Out: 1_490_000, Bytes: 1000})
	if c.flow.Cwnd() <= 120 {
		t.Errorf("window %g after a slow receiver on an empty network", c.flow.Cwnd())
	}
}

type fakeOut struct {
	path sim.Path
	cnps int
	sent []sim.Message
	wake int64
}

func (o *fakeOut) CNP(*sim.Flow)                   { o.cnps++ }
func (o *fakeOut) Send(_ *sim.Flow, m sim.Message) { o.sent = append(o.sent, m) }
func (o *fakeOut) SendTo(_ int, m sim.Message)     { o.sent = append(o.sent, m) }
func (o *fakeOut) WakeAt(_ *sim.Flow, ns int64)    { o.wake = ns }
func (o *fakeOut) LinkBps() uint64                 { return o.path.LinkBps }
func (o *fakeOut) BufferBytes() int64              { return 1 << 20 }
func (o *fakeOut) Path(*sim.Flow) *sim.Path        { return &o.path }

// 100 Gb/s with 1250 bytes for each credit of 84: 9.37 credits in a microsecond.
func TestExpressPassReceiverPacesCredits(t *testing.T) {
	s, _ := New("expresspass")
	out := &fakeOut{path: pacer().Path}
	r := s.NewReceiver(2, out)
	f := &sim.Flow{ID: 3, Size: 1 << 20}
	r.Message(0, 1, f, &sim.Message{Kind: sim.MsgRequest, Bytes: 1000})
	for out.wake != 0 && out.wake < 10_000 {
		r.Expire(out.wake, f)
	}
	// Half the full rate for 10 us: 46.9 credits.
	if n := len(out.sent); n < 46 || n > 48 {
		t.Errorf("%d credits in 10 us, want 47", n)
	}
	for i, m := range out.sent {
		if m.Kind != sim.MsgCredit || m.Seq != uint32(i) {
			t.Fatalf("message %d: %+v", i, m)
		}
	}
	r.Message(10_000, 1, f, &sim.Message{Kind: sim.MsgStop})
	if out.wake != 0 {
		t.Error("credits after a stop")
	}
}

func TestExpressPassSenderSpendsCredits(t *testing.T) {
	p := pacer()
	c := control(t, p, "expresspass").(*xpassControl)
	var sent []sim.Message
	c.send = func(_ *sim.Flow, m sim.Message) { sent = append(sent, m) }
	f := &sim.Flow{Size: 2500}
	c.Start(0, p, f)
	if len(sent) != 1 || sent[0].Kind != sim.MsgRequest || sent[0].Bytes != 3 {
		t.Fatalf("sent %+v, want a request for three packets", sent)
	}
	if !p.NeedsCredit || p.CreditBytes != 0 || p.TimerNs != 100_000 {
		t.Fatalf("waits for credit %v with %d, retry at %d", p.NeedsCredit, p.CreditBytes, p.TimerNs)
	}
	for seq := range uint32(4) {
		c.Message(int64(12_000+seq), p, f, &sim.Message{Kind: sim.MsgCredit, Seq: 10 + seq})
	}
	if p.CreditBytes != 3000 || c.sender.Wasted != 1 {
		t.Errorf("credit for %d bytes, %d wasted; want three packets and one", p.CreditBytes, c.sender.Wasted)
	}
	if len(sent) != 2 || sent[1].Kind != sim.MsgStop {
		t.Errorf("sent %+v, want one stop behind the request", sent)
	}
	for i := range uint32(3) {
		d := sim.Data{PSN: i, Bytes: 1000}
		c.Sent(13_000, p, f, &d)
		if d.Tag != 11+i || d.Unscheduled {
			t.Errorf("packet %d goes for credit %d (unscheduled %v)", i, d.Tag-1, d.Unscheduled)
		}
	}
}

func TestAeolusFillsTheFirstRoundTrip(t *testing.T) {
	p := pacer()
	c := control(t, p, "aeolus").(*xpassControl)
	c.send = func(*sim.Flow, sim.Message) {}
	c.probe = func() {}
	f := &sim.Flow{Size: 1 << 20}
	c.Start(0, p, f)
	if p.CreditBytes != 120_000 {
		t.Fatalf("%d bytes without credit, want a bandwidth-delay product", p.CreditBytes)
	}
	d := sim.Data{Bytes: 1000}
	c.Sent(0, p, f, &d)
	p.CreditBytes -= 1000
	if !d.Unscheduled || d.Tag != 0 {
		t.Errorf("first packet: %+v", d)
	}
	c.Message(12_000, p, f, &sim.Message{Kind: sim.MsgCredit})
	if p.CreditBytes != 1000 {
		t.Errorf("credit %d after the first credit packet, want its own only", p.CreditBytes)
	}
	var d2 sim.Data
	c.Sent(12_000, p, f, &d2)
	if d2.Unscheduled || d2.Tag != 1 {
		t.Errorf("after the first credit: %+v", d2)
	}
}
