// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket/pcapgo"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/rxepeer"
)

// pair are two machines with rxe on one bridge, the product on board.
type pair struct {
	net  *rxepeer.Net
	a, b *rxepeer.VM
}

func bootPair(ctx context.Context, t *testing.T, mtu int) *pair {
	t.Helper()
	if testing.Short() {
		t.Skip("boots machines")
	}
	if err := rxepeer.CheckHost(); err != nil {
		t.Skip(err)
	}
	n, err := rxepeer.NewNet(mtu)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	bin := product(t)
	config := func(name string, host int) rxepeer.Config {
		return rxepeer.Config{Name: name, Product: bin, NICs: []rxepeer.NIC{{Net: n, MTU: mtu, Addrs: []netip.Prefix{
			netip.MustParsePrefix(fmt.Sprintf("10.77.0.%d/24", host)),
			netip.MustParsePrefix(fmt.Sprintf("fd77::%d/64", host)),
		}}}}
	}
	vms, err := rxepeer.BootAll(ctx, config("a", 1), config("b", 2))
	if err != nil {
		t.Fatal(err)
	}
	for _, vm := range vms {
		t.Cleanup(func() { vm.Close() })
		t.Logf("%s: Linux %s, booted in %v", vm.Config.Name, vm.Kernel, vm.BootTime.Round(time.Millisecond))
	}
	return &pair{n, vms[0], vms[1]}
}

func run(ctx context.Context, t *testing.T, vm *rxepeer.VM, argv ...string) string {
	t.Helper()
	res, err := vm.Run(ctx, argv...)
	if err != nil {
		log, _ := vm.Get(ctx, "/run/softroce-xdp/eth0.log")
		t.Fatalf("%s: %v\nagent log:\n%s", vm.Config.Name, err, log)
	}
	return res.Stdout
}

func rxeCounters(ctx context.Context, t *testing.T, vm *rxepeer.VM) rxepeer.Counters {
	t.Helper()
	c, err := vm.RxeCounters(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// exchanges runs every kind of traffic that rxe carries, over IPv4 and IPv6, and
// checks that no error counter of rxe moved.
func (p *pair) exchanges(ctx context.Context, t *testing.T) {
	t.Helper()
	beforeA, beforeB := rxeCounters(ctx, t, p.a), rxeCounters(ctx, t, p.b)
	for _, v6 := range []bool{false, true} {
		route, err := rxepeer.RouteTo(ctx, p.b, p.a, v6)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range rxepeer.Exchanges(route) {
			start := time.Now()
			if _, err := p.b.Exchange(ctx, p.a, x); err != nil {
				t.Errorf("%s (IPv6 %v): %v", x.Name, v6, err)
				continue
			}
			t.Logf("%-28s IPv6 %-5v data checked %-5v %v", x.Name, v6, x.Checked, time.Since(start).Round(10*time.Millisecond))
		}
	}
	for _, vm := range []struct {
		vm     *rxepeer.VM
		before rxepeer.Counters
	}{{p.a, beforeA}, {p.b, beforeB}} {
		if trouble := rxeCounters(ctx, t, vm.vm).Trouble(vm.before); len(trouble) > 0 {
			t.Errorf("%s: rxe error counters moved: %v", vm.vm.Config.Name, trouble)
		}
	}
}

// dest is one entry of the destination table as bpftool prints it.
type dest struct {
	Key   struct{ Addr [16]byte }
	Value struct {
		TxNs        int64  `json:"tx_ns"`
		RxNs        int64  `json:"rx_ns"`
		InTxNs      int64  `json:"in_tx_ns"`
		RttNs       int64  `json:"rtt_ns"`
		Caps        uint16 `json:"caps"`
		Node        uint32 `json:"node"`
		TxPackets   uint64 `json:"tx_packets"`
		RxPackets   uint64 `json:"rx_packets"`
		TxUnstamped uint64 `json:"tx_unstamped"`
		RxUnstamped uint64 `json:"rx_unstamped"`
	}
}

// destTable reads the pinned table with bpftool, as a person would.
func destTable(ctx context.Context, t *testing.T, vm *rxepeer.VM) map[netip.Addr]dest {
	t.Helper()
	out := run(ctx, t, vm, "bpftool", "-j", "map", "dump", "pinned", "/sys/fs/bpf/softroce-xdp/eth0/dest_table")
	var entries []struct {
		Formatted struct {
			Key   struct{ Addr []uint8 }
			Value json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(out), &entries); err != nil {
		t.Fatalf("bpftool map dump: %v\n%s", err, out)
	}
	table := map[netip.Addr]dest{}
	for _, e := range entries {
		var d dest
		if err := json.Unmarshal(e.Formatted.Value, &d.Value); err != nil {
			t.Fatalf("bpftool map dump: %v\n%s", err, out)
		}
		copy(d.Key.Addr[:], e.Formatted.Key.Addr[:])
		table[netip.AddrFrom16(d.Key.Addr).Unmap()] = d
	}
	return table
}

// onWire counts what a capture holds.
type onWire struct {
	packets, badICRC             int
	stamped, t1, echo            int
	data, dataStamped            int // requests with payload
	acks, acksStamped, acksEchos int
	control                      int
}

func readCapture(t *testing.T, file string) onWire {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var w onWire
	for {
		frame, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return w
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := rocev2.ParseFrame(frame)
		if err != nil {
			continue // ARP, TCP of perftest
		}
		w.packets++
		if p.VerifyICRC() != nil {
			w.badICRC++
		}
		if p.BTH().DestQP() == rocev2.ControlQPN {
			w.control++
			continue
		}
		s, err := p.Stamp()
		stamped := err == nil
		if stamped {
			w.stamped++
		}
		if stamped && s.Flags&rocev2.StampT1 != 0 {
			w.t1++
		}
		if stamped && s.Flags&rocev2.StampEcho != 0 {
			w.echo++
		}
		switch {
		case p.Opcode() == rocev2.RCAck:
			w.acks++
			if stamped {
				w.acksStamped++
			}
			if stamped && s.Flags&rocev2.StampEcho != 0 {
				w.acksEchos++
			}
		case p.PayloadLen() > 0:
			w.data++
			if stamped {
				w.dataStamped++
			}
		}
	}
}

// TestRxePair is the product on two machines that run Linux's own RoCEv2: all
// their traffic completes, is stamped and echoed on the wire and measured in both
// tables, and rxe notices nothing. Then one side detaches and everything passes
// unstamped.
func TestRxePair(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	p := bootPair(ctx, t, 1500)
	for _, vm := range []*rxepeer.VM{p.a, p.b} {
		t.Log(strings.TrimSpace(run(ctx, t, vm, "softroce-xdp", "attach", "eth0")))
	}
	// First contact: two pings of RoCEv2 make the entries and exchange HELLO.
	route, err := rxepeer.RouteTo(ctx, p.b, p.a, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.b.Exchange(ctx, p.a, rxepeer.Exchanges(route)[0]); err != nil {
		t.Fatal(err)
	}
	waitAware(ctx, t, p.a, "10.77.0.2")
	waitAware(ctx, t, p.b, "10.77.0.1")

	file := filepath.Join(t.TempDir(), "pair.pcap")
	capture, err := p.net.Capture(file, rxepeer.CaptureConfig{Iface: rxepeer.TapName("b", 0), Max: 200_000})
	if err != nil {
		t.Fatal(err)
	}
	p.exchanges(ctx, t)
	if _, err := capture.Stop(); err != nil {
		t.Fatal(err)
	}
	w := readCapture(t, file)
	t.Logf("on the wire: %+v", w)
	if w.badICRC > 0 {
		t.Errorf("%d packets with a bad ICRC", w.badICRC)
	}
	if w.data == 0 || w.dataStamped < w.data*9/10 {
		t.Errorf("%d of %d data packets carry the stamp option", w.dataStamped, w.data)
	}
	if w.acks == 0 || w.acksEchos < w.acks*9/10 {
		t.Errorf("%d of %d ACKs carry an echo", w.acksEchos, w.acks)
	}
	for _, side := range []struct {
		vm   *rxepeer.VM
		peer string
	}{{p.a, "10.77.0.2"}, {p.b, "10.77.0.1"}, {p.a, "fd77::2"}, {p.b, "fd77::1"}} {
		d, ok := destTable(ctx, t, side.vm)[netip.MustParseAddr(side.peer)]
		if !ok {
			t.Errorf("%s: no entry for %s", side.vm.Config.Name, side.peer)
			continue
		}
		// The machines' clocks differ by when they booted; the sum does not know.
		rtt := time.Duration(d.Value.TxNs + d.Value.RxNs)
		t.Logf("%s -> %s: transmit %v receive %v sum %v, peer's transmit %v", side.vm.Config.Name, side.peer,
			time.Duration(d.Value.TxNs), time.Duration(d.Value.RxNs), rtt, time.Duration(d.Value.InTxNs))
		if rtt < time.Microsecond || rtt > time.Second {
			t.Errorf("%s -> %s: round trip %v is not plausible", side.vm.Config.Name, side.peer, rtt)
		}
	}

	// One side alone: HELLO finds nobody, nothing is stamped, everything passes.
	run(ctx, t, p.b, "softroce-xdp", "detach", "eth0")
	run(ctx, t, p.a, "softroce-xdp", "detach", "eth0")
	run(ctx, t, p.a, "softroce-xdp", "attach", "eth0")
	file = filepath.Join(t.TempDir(), "one.pcap")
	if capture, err = p.net.Capture(file, rxepeer.CaptureConfig{Iface: rxepeer.TapName("b", 0), Max: 200_000}); err != nil {
		t.Fatal(err)
	}
	p.exchanges(ctx, t)
	if _, err := capture.Stop(); err != nil {
		t.Fatal(err)
	}
	w = readCapture(t, file)
	t.Logf("one side alone: %+v", w)
	if w.stamped > 0 || w.badICRC > 0 || w.data == 0 {
		t.Errorf("one side alone: %d stamped packets, %d bad ICRCs", w.stamped, w.badICRC)
	}
	d := destTable(ctx, t, p.a)[netip.MustParseAddr("10.77.0.2")]
	if d.Value.RttNs <= 0 || d.Value.RttNs > int64(time.Second) {
		t.Errorf("round trip to an unaware peer by PSN: %v", time.Duration(d.Value.RttNs))
	}
}

func waitAware(ctx context.Context, t *testing.T, vm *rxepeer.VM, peer string) {
	t.Helper()
	for range 100 {
		if destTable(ctx, t, vm)[netip.MustParseAddr(peer)].Value.Caps&bpf.CapStamp != 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	log, _ := vm.Get(ctx, "/run/softroce-xdp/eth0.log")
	t.Fatalf("%s: %s did not answer HELLO\n%s", vm.Config.Name, peer, log)
}
