// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// TestRxePair is the product on two machines that run Linux's own RoCEv2. All
// their traffic completes, is stamped and echoed on the wire and measured in both
// tables, and rxe notices nothing; with the product on one side only everything
// passes unstamped; after detach everything is as before.
func TestRxePair(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	p := bootPair(ctx, t, 1500, rxepeer.Debian13)
	control := p.exchanges(ctx, t, "without", everything)
	clean := p.traces(ctx, t)

	said := p.attach(ctx, t)
	if !strings.Contains(said, "XDP native") || !strings.Contains(said, "egress tcx") || !strings.Contains(said, "pacer edt") {
		t.Errorf("attach says %q; this kernel has native XDP on virtio, TCX and fq", said)
	}
	p.checkBoth(ctx, t, control, everything)
	p.detach(ctx, t)

	p.attachOne(ctx, t, p.a)
	file := p.capture(t, "one.pcap", func() {
		p.exchanges(ctx, t, "one side", everything).check(t, "one side", control)
	})
	w := readCapture(t, file)
	t.Logf("one side: %+v", w)
	if w.stamped > 0 || w.badICRC > 0 || w.data == 0 {
		t.Errorf("one side: %d stamped packets, %d bad ICRCs in %d data packets", w.stamped, w.badICRC, w.data)
	}
	for _, v6 := range []bool{false, true} {
		d := destTable(ctx, t, p.a)[p.addr(p.b, v6)]
		for try := 1; try < 4 && time.Duration(d.RttNs) > time.Second; try++ { // a machine was paused under the last packets
			p.exchange(ctx, t, "again", rxepeer.Exchanges(p.route(ctx, t, v6))[0])
			d = destTable(ctx, t, p.a)[p.addr(p.b, v6)]
		}
		rtt := time.Duration(d.RttNs)
		t.Logf("round trip to an unaware peer over %s, from PSNs: %v", family(v6), rtt)
		if rtt < time.Microsecond || rtt > time.Second {
			t.Errorf("round trip to an unaware peer over %s: %v is not plausible", family(v6), rtt)
		}
		if d.TxNs != 0 || d.RxNs != 0 || d.InTxNs != 0 {
			t.Errorf("one-way times of a peer that stamps nothing: %+v", d)
		}
	}
	run(ctx, t, p.a, "softroce-xdp", "detach", "eth0")

	p.waitTraces(ctx, t, clean)
	p.exchanges(ctx, t, "after", everything).check(t, "after", control)
}

// TestRxeDebian12 is the pair on the kernel of Debian 12: Linux 6.1, which has no
// TCX and another verifier.
func TestRxeDebian12(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	p := bootPair(ctx, t, 1500, rxepeer.Debian12)
	if !strings.HasPrefix(p.a.Kernel, "6.1.") {
		t.Fatalf("booted Linux %s", p.a.Kernel)
	}
	checkFeatures(ctx, t, p.a)
	control := p.exchanges(ctx, t, "without", everything)
	clean := p.traces(ctx, t)
	if said := p.attach(ctx, t); !strings.Contains(said, "XDP native") || !strings.Contains(said, "egress clsact") {
		t.Errorf("attach says %q; this kernel has native XDP on virtio and no TCX", said)
	}
	p.checkBoth(ctx, t, control, everything)
	p.detach(ctx, t)
	p.waitTraces(ctx, t, clean)
}

// checkFeatures compares what `features` says with what Linux 6.1 of Debian 12 has.
func checkFeatures(ctx context.Context, t *testing.T, vm *rxepeer.VM) {
	t.Helper()
	out := run(ctx, t, vm, "softroce-xdp", "features", "eth0")
	for _, want := range []string{
		`XDP programs +yes +must`, `bpf_xdp_load_bytes +yes +must`, `bpf_skb_set_tstamp +yes +must`, `BTF +yes +must`,
		`ring buffer +yes +must`, `queue map +yes +must`, `XSK map +yes +must`, `bpf file system +yes +must`,
		`bpf_ktime_get_tai_ns +yes +may`, `TCX links +no +may +6\.6`,
		`  driver +virtio_net`, `  XDP +unknown \(the kernel tells from Linux 6\.3 on\)`,
		`  pacer edt +works`, `  pacer htb +works`, `  pacer police +works`,
	} {
		if !regexp.MustCompile(`(?m)^` + want).MatchString(out) {
			t.Errorf("features says no %q:\n%s", want, out)
		}
	}
}

// TestRxeHTB: rxe's first contact under htb. The root qdisc has been changed before
// its first packet: rxe ends a QP whose packet is dropped while that happens.
func TestRxeHTB(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	p := bootPair(ctx, t, 1500, rxepeer.Debian13)
	route := p.route(ctx, t, false)
	control := p.exchange(ctx, t, "without", rxepeer.Exchanges(route)[0])
	for _, vm := range p.both() {
		p.attachOne(ctx, t, vm, "--pacer", "htb", "--rate", "1G")
		if out := run(ctx, t, vm, "softroce-xdp", "status"); !strings.Contains(out, "no destination paced yet") {
			t.Errorf("status before the first packet:\n%s", out)
		}
		if out := run(ctx, t, vm, "tc", "qdisc", "show", "dev", "eth0"); !strings.Contains(out, "htb 5352: root") {
			t.Errorf("before the first packet the root qdisc is\n%s", out)
		}
	}
	p.exchange(ctx, t, "first contact", rxepeer.Exchanges(route)[0]).check(t, "first contact", control)
	waitAware(ctx, t, p.a, p.addr(p.b, false))
	p.exchange(ctx, t, "htb", rxepeer.Exchanges(route)[0]).check(t, "htb", control)
}

// driverDrops sums up the packets that both machines' drivers received and dropped,
// the few among them that our program consumed (HELLO_ACK).
func (p *pair) driverDrops(ctx context.Context, t *testing.T) int {
	t.Helper()
	sum := 0
	for _, vm := range p.both() {
		out := run(ctx, t, vm, "sh", "-c", `ethtool -S eth0 | grep ' rx_drops:'`)
		for line := range strings.Lines(out) {
			_, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatalf("ethtool -S: %q", line)
			}
			sum += n
		}
	}
	return sum
}

func withSize(argv []string, size string) []string {
	return replaceFlag(argv, "-s", size)
}

func replaceFlag(argv []string, flag, value string) []string {
	out := append([]string(nil), argv...)
	for i, a := range out {
		if a == flag {
			out[i+1] = value
		}
	}
	return out
}

// checkBoth runs traffic between two attached machines and looks at the wire and
// at both tables.
func (p *pair) checkBoth(ctx context.Context, t *testing.T, control phase, what func(rxepeer.Route) []rxepeer.Exchange) {
	t.Helper()
	before, drops := p.atRest(ctx, t), p.hostDrops(t)
	var got phase
	file := p.capture(t, "both.pcap", func() { got = p.exchanges(ctx, t, "both", what) })
	got.check(t, "both", control)
	if t.Failed() {
		for _, vm := range p.both() {
			t.Logf("%s:\n%s", vm.Config.Name, run(ctx, t, vm, "softroce-xdp", "stats", "eth0"))
		}
	}
	readCapture(t, file).checkStamped(t)

	after := p.atRest(ctx, t)
	drops = p.hostDrops(t) - drops // in front of a machine that was paused
	for _, x := range []struct{ us, peer *rxepeer.VM }{{p.a, p.b}, {p.b, p.a}} {
		var tx, rx uint64
		nodes := map[uint32]bool{}
		for _, v6 := range []bool{false, true} {
			addr := p.addr(x.peer, v6)
			d, old := after[x.us].table[addr], before[x.us].table[addr]
			tx, rx = tx+d.TxPackets-old.TxPackets, rx+d.RxPackets-old.RxPackets
			if d.TxUnstamped != old.TxUnstamped || d.RxUnstamped != old.RxUnstamped {
				t.Errorf("%s counts unstamped packets with %s: %+v, before %+v", x.us.Config.Name, addr, d, old)
			}
			if d.Node == 0 || nodes[d.Node] {
				t.Errorf("%s calls %s node %d", x.us.Config.Name, addr, d.Node)
			}
			nodes[d.Node] = true
		}
		// HELLO goes by itself and is no traffic of a destination.
		ours, theirs := after[x.us].sent-before[x.us].sent, after[x.peer].sent-before[x.peer].sent
		if tx != ours || rx > theirs || theirs-rx > drops {
			t.Errorf("%s counts %d packets out and %d in; rxe sent %d, its peer's %d", x.us.Config.Name, tx, rx, ours, theirs)
		}
	}
	p.checkTimes(ctx, t, after)
}

// machineCounts are the counters of a machine: its table, and the packets that rxe sent.
type machineCounts struct {
	table map[netip.Addr]dest
	sent  uint64
}

// packets are the packets of all counters.
func (c machineCounts) packets() uint64 {
	n := c.sent
	for _, d := range c.table {
		n += d.TxPackets + d.RxPackets
	}
	return n
}

// atRest reads the counters of both machines once no packet moves them: they cannot be read at one moment, and rxe sends
// the last packets of a connection after the programs have ended.
func (p *pair) atRest(ctx context.Context, t *testing.T) (now map[*rxepeer.VM]machineCounts) {
	t.Helper()
	last := uint64(0)
	testkit.Eventually(t, "no packets", func() bool {
		sum := uint64(0)
		now = map[*rxepeer.VM]machineCounts{}
		for _, vm := range p.both() {
			now[vm] = machineCounts{destTable(ctx, t, vm), rxeCounters(ctx, t, vm)["sent_pkts"]}
			sum += now[vm].packets()
		}
		was := last
		last = sum
		return was == sum
	})
	return now
}

// checkTimes looks at the times in both tables. Those of a machine that was paused under its last packets are replaced by
// the times of further packets.
func (p *pair) checkTimes(ctx context.Context, t *testing.T, at map[*rxepeer.VM]machineCounts) {
	t.Helper()
	for try := 1; ; try++ {
		var errs []error
		for _, v6 := range []bool{false, true} {
			a, b := at[p.a].table[p.addr(p.b, v6)], at[p.b].table[p.addr(p.a, v6)]
			errs = append(errs, a.checkTimes(t, p.a.Config.Name, p.addr(p.b, v6), b), b.checkTimes(t, p.b.Config.Name, p.addr(p.a, v6), a))
		}
		err := errors.Join(errs...)
		if err == nil {
			return
		}
		if try == 4 {
			t.Error(err)
			return
		}
		t.Logf("again: %v", err)
		for _, v6 := range []bool{false, true} {
			p.exchange(ctx, t, "again", rxepeer.Exchanges(p.route(ctx, t, v6))[0])
		}
		at = p.atRest(ctx, t)
	}
}

// checkTimes returns an error unless the registers of a peer are plausible; back is our entry in its table. The
// machines' clocks differ by when they booted. A sum of one time there and one
// time back does not know of that.
func (d dest) checkTimes(t *testing.T, us string, peer netip.Addr, back dest) error {
	t.Helper()
	t.Logf("%s -> %s: node %d, transmit %v, receive %v, peer's transmit %v, rate %d Mbit/s", us, peer, d.Node,
		time.Duration(d.TxNs), time.Duration(d.RxNs), time.Duration(d.InTxNs), d.RateBps/1e6)
	for name, sum := range map[string]int64{
		"transmit + receive":                  d.TxNs + d.RxNs,
		"transmit + the peer's, its table":    d.TxNs + back.TxNs,
		"transmit + the peer's, in our table": d.TxNs + d.InTxNs,
	} {
		if sum < int64(time.Microsecond) || sum > int64(time.Second) {
			return fmt.Errorf("%s -> %s: %s is %v, not plausible", us, peer, name, time.Duration(sum))
		}
	}
	return nil
}

// traces is all that attaching changes on a machine: qdiscs, filters, programs, pins.
func (p *pair) traces(ctx context.Context, t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, vm := range p.both() {
		all.WriteString(run(ctx, t, vm, "sh", "-c", `tc qdisc show dev eth0; tc filter show dev eth0 egress
ip -o link show dev eth0 | grep -o 'mtu.*'; bpftool net show dev eth0; bpftool prog list | grep softroce
find /sys/fs/bpf /run/softroce-xdp -mindepth 1 ! -name '*.log' 2>/dev/null | grep eth0; ps -o comm | grep softroce; true`))
	}
	return all.String()
}

// waitTraces waits until the machines have the traces that they had before attach: the kernel frees programs, and a process
// ends, some time after detach.
func (p *pair) waitTraces(ctx context.Context, t *testing.T, clean string) {
	t.Helper()
	testkit.Eventually(t, "all is as before attach", func() error {
		if now := p.traces(ctx, t); now != clean {
			return fmt.Errorf("detach left\n%s\nbefore attach it was\n%s", now, clean)
		}
		return nil
	})
}

// TestRxePaced sends a write of some megabytes through the edt pacer at a fixed rate
// and measures it on the wire. The rate is half of what these machines do unpaced, or 5 Mbit/s
// where they do more.
func TestRxePaced(t *testing.T) {
	const most = 5e6
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	p := bootPair(ctx, t, 4200, rxepeer.Debian13)
	x := rxepeer.Exchanges(p.route(ctx, t, false))[0]
	for _, argv := range []*[]string{&x.Server, &x.Client} {
		*argv = replaceFlag(withSize(*argv, "65536"), "-n", "60")
	}
	var control phase
	unpaced := p.rateOf(t, func() { control = p.exchange(ctx, t, "without", x) })
	rate := math.Trunc(min(most, unpaced/2))

	for _, vm := range p.both() {
		said := p.attachOne(ctx, t, vm, "--rate", fmt.Sprint(uint64(rate)), "--policy", "mode=fixed")
		if !strings.Contains(said, "pacer edt") {
			t.Errorf("attach says %q: not edt", said)
		}
	}
	drops := p.driverDrops(ctx, t)
	p.exchange(ctx, t, "first", x) // see TestRxeJumbo
	t.Logf("virtio_net dropped %d frames on buffers from before attach", p.driverDrops(ctx, t)-drops)
	var paced float64
	// A stall of the machine in the first packets makes it faster, one in the last packets slower.
	// A pacer that is wrong is so every time.
	for start := time.Now(); time.Since(start) < testkit.Patience; {
		paced = p.rateOf(t, func() { p.exchange(ctx, t, "paced", x).check(t, "paced", control) })
		if paced >= 0.95*rate && paced <= 1.03*rate {
			break
		}
	}
	d := destTable(ctx, t, p.a)[p.addr(p.b, false)]
	t.Logf("unpaced %.1f Mbit/s, paced %.2f Mbit/s of %.2f", unpaced/1e6, paced/1e6, rate/1e6)
	if d.RateBps != uint64(rate) {
		t.Errorf("the table says %d bit/s", d.RateBps)
	}
	if paced < 0.95*rate || paced > 1.03*rate {
		t.Errorf("paced at %.2f Mbit/s, want %.2f", paced/1e6, rate/1e6)
	}
}

// rateOf returns the rate of the data packets on the wire in bits per second, as a
// qdisc counts them: whole frames, without the option.
func (p *pair) rateOf(t *testing.T, f func()) float64 {
	t.Helper()
	file := p.capture(t, "rate.pcap", f)
	var first, last time.Time
	bits := 0
	eachPacket(t, file, func(at time.Time, q rocev2.Packet) {
		if q.PayloadLen() == 0 {
			return
		}
		if first.IsZero() {
			first = at // its own bits are not within the time
		} else {
			bits += (len(q.Frame()) - len(q.Surplus())) * 8
		}
		last = at
	})
	if info, err := os.Stat(file); err != nil || info.Size() < 1<<20 {
		t.Fatalf("the capture is too small to tell a rate: %v", err)
	}
	return float64(bits) / last.Sub(first).Seconds()
}
