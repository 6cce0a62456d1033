// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// patient is a timeout that means a lost packet, not a machine out of breath.
const patient = 2 * time.Minute

func open(t *testing.T, h *topo.Host, addr netip.Addr, change func(*Config)) *Endpoint {
	t.Helper()
	cfg := Config{Local: addr, Do: h.Do, Seed: 1}
	if change != nil {
		change(&cfg)
	}
	ep, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ep.Close(); err != nil {
			t.Error(err)
		}
	})
	return ep
}

// intact fails unless the responder holds exactly what the sender was told.
func intact(t *testing.T, from netip.Addr, sent Report, at *Endpoint) Received {
	t.Helper()
	got := at.Received()[from]
	if got.Bytes != sent.Bytes || got.Bytes == 0 {
		t.Errorf("sender had %d bytes acknowledged, responder took %d", sent.Bytes, got.Bytes)
	}
	if got.Mismatches != 0 || got.Invalid != 0 {
		t.Errorf("damaged data got through: %+v", got)
	}
	return got
}

func TestTransferOverBothFamiliesAndAllPMTUs(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), MTU: 4300, StaticNeighbours: true})
	a, b := top.Host(1), top.Host(2)
	for _, pair := range [][2]netip.Addr{{a.IPv4(), b.IPv4()}, {a.IPv6(), b.IPv6()}} {
		src, dst := open(t, a, pair[0], nil), open(t, b, pair[1], nil)
		var bytes uint64
		for _, pmtu := range []int{256, 512, 1024, 2048, 4096} {
			r, err := src.Send(t.Context(), Flow{To: pair[1], PMTU: pmtu, MessageBytes: 10*pmtu + 3, Bytes: uint64(100 * pmtu), MinRTO: patient, GiveUp: 2 * patient})
			if err != nil {
				t.Fatalf("PMTU %d to %s: %v", pmtu, pair[1], err)
			}
			if r.Retransmits != 0 || r.RTTMean <= 0 || r.Bytes != 10*uint64(10*pmtu+3) {
				t.Errorf("PMTU %d to %s: %+v", pmtu, pair[1], r)
			}
			bytes += r.Bytes
		}
		got := dst.Received()[pair[0]]
		if got.Bytes != bytes || got.Messages != 50 || got.Mismatches+got.Invalid != 0 {
			t.Errorf("received %+v, want %d bytes in 50 messages", got, bytes)
		}
		if c := dst.Counters(); c.BadICRC+c.Malformed+c.Unclaimed+c.SendFails != 0 {
			t.Errorf("responder: %+v", c)
		}
		if c := src.Counters(); c.BadICRC+c.Malformed+c.Unclaimed != 0 {
			t.Errorf("sender: %+v", c)
		}
	}
}

// What is on the wire must satisfy others, not only our own receiver, which rebuilds
// the headers that it does not see.
func TestWirePacketsAreRoCEv2(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	a, b := top.Host(1), top.Host(2)
	var fd int
	err := top.Switch().Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0x0300) // ETH_P_ALL
		if err != nil {
			return err
		}
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, pair := range [][2]netip.Addr{{a.IPv4(), b.IPv4()}, {a.IPv6(), b.IPv6()}} {
		src := open(t, a, pair[0], nil)
		open(t, b, pair[1], nil)
		if _, err := src.Send(t.Context(), Flow{To: pair[1], Bytes: 1 << 20, MessageBytes: 10001, MinRTO: patient, GiveUp: 2 * patient}); err != nil {
			t.Fatal(err)
		}
	}
	buf := make([]byte, 9000)
	seen := map[string]int{}
	for {
		n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
		if err != nil {
			break
		}
		p, err := rocev2.ParseFrame(buf[:n])
		if err != nil {
			continue // neighbour traffic and the like
		}
		if err := p.VerifyICRC(); err != nil {
			t.Fatalf("%s from %s on the wire: %v", p.Opcode(), p.Src(), err)
		}
		if p.UDPChecksum() != 0 {
			t.Fatalf("UDP checksum %#x on the wire, want 0", p.UDPChecksum())
		}
		seen[fmt.Sprintf("%s v6=%v", p.Opcode(), p.IsIPv6())]++
	}
	for _, op := range []rocev2.Opcode{rocev2.RCWriteFirst, rocev2.RCWriteMiddle, rocev2.RCWriteLast, rocev2.RCAck} {
		for _, v6 := range []bool{false, true} {
			if k := fmt.Sprintf("%s v6=%v", op, v6); seen[k] == 0 {
				t.Errorf("no %s on the wire; saw %v", k, seen)
			}
		}
	}
}

func TestDataIsIntactAfterLoss(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	a, b := top.Host(1), top.Host(2)
	src := open(t, a, a.IPv4(), nil)
	dst := open(t, b, b.IPv4(), func(c *Config) { c.Drop = 0.02 })
	r, err := src.Send(t.Context(), Flow{To: b.IPv4(), Bytes: 4 << 20, Window: 64, MinRTO: 10 * time.Millisecond, GiveUp: 2 * patient})
	if err != nil {
		t.Fatal(err)
	}
	got := intact(t, a.IPv4(), r, dst)
	c := dst.Counters()
	t.Logf("%.0f Mbit/s; sender %d packets, %d retransmits, %d NAKs, %d timeouts; responder dropped %d, %d ahead",
		r.GoodputBPS/1e6, r.Packets, r.Retransmits, r.NAKs, r.Timeouts, c.Dropped, got.Ahead)
	if c.Dropped == 0 || r.Retransmits < c.Dropped || r.NAKs == 0 || got.NAKs < r.NAKs || got.Ahead == 0 {
		t.Errorf("loss without its traces: sender %+v\nresponder %+v %+v", r, c, got)
	}
}

func TestBadICRCIsCountedAndRepaired(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	a, b := top.Host(1), top.Host(2)
	src := open(t, a, a.IPv6(), func(c *Config) { c.Corrupt = 0.02 })
	dst := open(t, b, b.IPv6(), nil)
	r, err := src.Send(t.Context(), Flow{To: b.IPv6(), Bytes: 2 << 20, Window: 64, MinRTO: 10 * time.Millisecond, GiveUp: 2 * patient})
	if err != nil {
		t.Fatal(err)
	}
	intact(t, a.IPv6(), r, dst)
	sent, got := src.Counters().Corrupted, dst.Counters().BadICRC
	for end := time.Now().Add(patient); got < sent && time.Now().Before(end); got = dst.Counters().BadICRC {
		time.Sleep(time.Millisecond) // the last one may be a copy of a packet that has been acknowledged
	}
	if sent == 0 || got != sent {
		t.Errorf("%d packets damaged, %d bad ICRCs counted", sent, got)
	}
}

// Two destinations behind different bottlenecks, at the same time, in one process.
func TestFlowsFillTheirBottlenecks(t *testing.T) {
	rates := []float64{40e6, 120e6}
	top := topo.ForTest(t, topo.Spec{StaticNeighbours: true, Hosts: []topo.HostSpec{
		{},
		{Bottleneck: &topo.Bottleneck{RateBPS: uint64(rates[0])}},
		{Bottleneck: &topo.Bottleneck{RateBPS: uint64(rates[1])}},
	}})
	src := open(t, top.Host(1), top.Host(1).IPv4(), nil)
	type outcome struct {
		r   Report
		err error
	}
	results := []chan outcome{make(chan outcome, 1), make(chan outcome, 1)}
	eps := make([]*Endpoint, 2)
	for i := range rates {
		h := top.Host(2 + i)
		eps[i] = open(t, h, h.IPv4(), nil)
		go func() {
			r, err := src.Send(t.Context(), Flow{To: h.IPv4(), Duration: 800 * time.Millisecond, Window: 64, MinRTO: patient, GiveUp: 2 * patient})
			results[i] <- outcome{r, err}
		}()
	}
	// The best of several windows: a busy machine may stall for some of them.
	time.Sleep(100 * time.Millisecond)
	fills := make([][]float64, len(rates))
	var last []topo.QueueStats
	for range 6 {
		q, err := top.Queues()
		if err != nil {
			t.Fatal(err)
		}
		for i := range rates {
			if last != nil {
				b, e := last[1+i], q[1+i]
				fills[i] = append(fills[i], float64(e.Sent-b.Sent)*8/e.At.Sub(b.At).Seconds()/rates[i])
			}
		}
		last = q
		time.Sleep(100 * time.Millisecond)
	}
	for i, rate := range rates {
		o := <-results[i]
		if o.err != nil {
			t.Fatal(o.err)
		}
		intact(t, top.Host(1).IPv4(), o.r, eps[i])
		fill := slices.Max(fills[i])
		q := last[1+i]
		t.Logf("%.0f Mbit/s: %.1f %% full, backlog %d, RTT %v, goodput %.1f Mbit/s, %d retransmits, %d NAKs, %d timeouts, %d drops",
			rate/1e6, 100*fill, q.Backlog, o.r.RTTMean, o.r.GoodputBPS/1e6, o.r.Retransmits, o.r.NAKs, o.r.Timeouts, q.Drops)
		// Nothing was dropped, so a NAK would mean that packets overtook each other.
		if q.Drops != 0 || o.r.NAKs != 0 {
			t.Errorf("%d drops, %d NAKs; the buffer holds the window", q.Drops, o.r.NAKs)
		}
		if o.r.GoodputBPS > rate {
			t.Errorf("%.1f Mbit/s of payload through %.0f Mbit/s", o.r.GoodputBPS/1e6, rate/1e6)
		}
		if fill < .95 || fill > 1.08 { // a window may hold a bucket more than its share
			require.Missed(t, "bottleneck of %.0f Mbit/s is %.1f %% full", rate/1e6, 100*fill)
		}
		var sum uint64
		for _, s := range o.r.Samples {
			sum += s.Bytes
		}
		if len(o.r.Samples) == 0 || sum != o.r.Bytes {
			t.Errorf("time series of %d samples with %d bytes, report says %d", len(o.r.Samples), sum, o.r.Bytes)
		}
		if len(o.r.Samples) < 7 {
			require.Missed(t, "%d samples in %v", len(o.r.Samples), o.r.Elapsed)
		}
	}
}

// A window larger than the switch's buffer overflows it; the flow lives on.
func TestWindowBeyondTheBufferLosesAndRecovers(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{StaticNeighbours: true, Hosts: []topo.HostSpec{
		{}, {Bottleneck: &topo.Bottleneck{RateBPS: 10e6, Limit: 30000}},
	}})
	a, b := top.Host(1), top.Host(2)
	src, dst := open(t, a, a.IPv4(), nil), open(t, b, b.IPv4(), nil)
	r, err := src.Send(t.Context(), Flow{To: b.IPv4(), Bytes: 1 << 20, Window: 64, MinRTO: 10 * time.Millisecond, GiveUp: 2 * patient})
	if err != nil {
		t.Fatal(err)
	}
	intact(t, a.IPv4(), r, dst)
	q, err := b.Port().Queue()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d drops, %d retransmits, %.1f Mbit/s", q.Drops, r.Retransmits, r.GoodputBPS/1e6)
	if q.Drops == 0 || r.Retransmits < uint64(q.Drops) {
		t.Errorf("%d drops and %d retransmits; the window should have overflowed the buffer", q.Drops, r.Retransmits)
	}
}

func TestFullHostQdiscPausesTheSender(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	a, b := top.Host(1), top.Host(2)
	tc := a.Command("tc", "qdisc", "add", "dev", topo.IfName, "root", "tbf", "rate", "10mbit", "burst", "10k", "limit", "20k")
	if out, err := tc.CombinedOutput(); err != nil {
		t.Fatalf("tc: %s, %v", out, err)
	}
	src, dst := open(t, a, a.IPv4(), nil), open(t, b, b.IPv4(), nil)
	// The long timeout keeps a stalled machine from looking like a loss, and the window fits the ring of a veth.
	r, err := src.Send(t.Context(), Flow{To: b.IPv4(), Bytes: 2 << 20, Window: 128, MinRTO: patient, GiveUp: 2 * patient})
	if err != nil {
		t.Fatal(err)
	}
	intact(t, a.IPv4(), r, dst)
	t.Logf("full qdisc: %d push-backs, %d retransmits, %.1f Mbit/s", r.PushBacks, r.Retransmits, r.GoodputBPS/1e6)
	if r.PushBacks == 0 || r.Retransmits != 0 {
		t.Errorf("push-backs %d, retransmits %d: a full qdisc should pause the sender, not lose its packets", r.PushBacks, r.Retransmits)
	}

	// A small socket buffer does the same without any refusal.
	r, err = src.Send(t.Context(), Flow{To: b.IPv4(), Bytes: 1 << 20, Window: 128, SendBuffer: 8 << 10, MinRTO: patient, GiveUp: 2 * patient})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("small buffer: %d push-backs, %d retransmits, %.1f Mbit/s", r.PushBacks, r.Retransmits, r.GoodputBPS/1e6)
	if r.PushBacks != 0 || r.Retransmits != 0 {
		t.Errorf("push-backs %d, retransmits %d with a small socket buffer, want none", r.PushBacks, r.Retransmits)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	if _, err := Open(Config{Local: netip.IPv4Unspecified()}); err == nil || !strings.Contains(err.Error(), "own addresses") {
		t.Errorf("Open on 0.0.0.0: %v", err)
	}
	if _, err := Open(Config{Local: netip.MustParseAddr("127.0.0.1"), Drop: 2}); err == nil || !strings.Contains(err.Error(), "0 to 1") {
		t.Errorf("Open with Drop 2: %v", err)
	}
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	a, b := top.Host(1), top.Host(2)
	src := open(t, a, a.IPv4(), nil)
	for _, c := range []struct {
		flow Flow
		want string
	}{
		{Flow{To: b.IPv6()}, "one family"},
		{Flow{To: b.IPv4(), PMTU: 1000}, "use 256"},
		{Flow{To: b.IPv4(), AckEvery: 20, Window: 10}, "up to the window"},
		{Flow{To: b.IPv4(), Bytes: 1, PMTU: 2048}, "smaller PMTU"},
		{Flow{To: b.IPv4(), Bytes: 1, GiveUp: 100 * time.Millisecond}, "is a responder listening"},
	} {
		_, err := src.Send(t.Context(), c.flow)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Send(%+v) = %v, want an error with %q", c.flow, err, c.want)
		}
	}
	// Somebody else holds port 4791.
	if _, err := Open(Config{Local: a.IPv4(), Do: a.Do}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("second endpoint on one address: %v", err)
	}
}

// A flow whose packets its own host does not take gives up, too: an interface that stays down.
func TestGivesUpWithoutInterface(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	a, b := top.Host(1), top.Host(2)
	src := open(t, a, a.IPv4(), nil)
	eth0, err := a.Netlink().LinkByName(topo.IfName)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Netlink().LinkSetDown(eth0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := src.Send(ctx, Flow{To: b.IPv4(), Bytes: 1, GiveUp: 100 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "is a responder listening") {
		t.Errorf("%v after %d refusals of the host", err, r.PushBacks)
	}
}

func TestContextEndsAFlowAfterItsMessage(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	a, b := top.Host(1), top.Host(2)
	src, dst := open(t, a, a.IPv4(), nil), open(t, b, b.IPv4(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // in the midst of a message, however late that comes
		for ctx.Err() == nil && dst.Received()[a.IPv4()].Bytes == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	r, err := src.Send(ctx, Flow{To: b.IPv4(), GiveUp: 2 * patient})
	if err != nil {
		t.Fatal(err)
	}
	intact(t, a.IPv4(), r, dst)
	if r.Bytes%(64*1024) != 0 {
		t.Errorf("%d bytes acknowledged: the last message is not whole", r.Bytes)
	}
}

// BenchmarkLoad is the generator's speed through two veth pairs and a bridge.
func BenchmarkLoad(b *testing.B) {
	top := topo.ForTest(b, topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	x, y := top.Host(1), top.Host(2)
	src, err := Open(Config{Local: x.IPv4(), Do: x.Do})
	if err != nil {
		b.Fatal(err)
	}
	defer src.Close()
	dst, err := Open(Config{Local: y.IPv4(), Do: y.Do})
	if err != nil {
		b.Fatal(err)
	}
	defer dst.Close()
	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	r, err := src.Send(b.Context(), Flow{To: y.IPv4(), Bytes: uint64(b.N) * 1024})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/r.Elapsed.Seconds(), "packets/s")
	b.ReportMetric(float64(r.Retransmits), "retransmits")
}
