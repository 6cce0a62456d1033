// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/testenv/engines"
	"github.com/softroce/softroce-xdp/testenv/topo"
)

// pump keeps window work requests outstanding for d and returns how many completed
// and in what time.
func pump(t testing.TB, a *side, wr *qp.SendWR, window int, d time.Duration) (n int, took time.Duration) {
	t.Helper()
	out := make([]qp.Completion, window)
	ctx, cancel := context.WithTimeout(context.Background(), d+10*time.Second)
	defer cancel()
	start := time.Now()
	outstanding := 0
	for {
		took = time.Since(start)
		for ; outstanding < window && took < d; outstanding++ {
			a.post(t, wr)
		}
		if outstanding == 0 {
			return n, took
		}
		if err := a.cq.Wait(ctx, false); err != nil {
			t.Fatalf("nothing completes: %v\n%s", err, dump(a.dev))
		}
		got := a.cq.Poll(out)
		for _, c := range out[:got] {
			if c.Status != qp.Success {
				t.Fatalf("%+v", c)
			}
		}
		n += got
		outstanding -= got
	}
}

// The pacer of the engine keeps the rates of the destination table.
func TestPacing(t *testing.T) {
	for _, mbit := range []uint64{20, 200} {
		t.Run(fmt.Sprint(mbit), func(t *testing.T) {
			hosts := twoHosts(t, "--policy", "mode=fixed", "--rate", fmt.Sprintf("%dmbit", mbit))
			a, b := connected(t, hosts, short)
			wr := qp.SendWR{Op: qp.OpWrite, Flags: qp.Signaled, SGL: a.sge(0, 1<<16), RemoteAddr: b.va, RKey: b.key}
			pump(t, a, &wr, 2, 300*time.Millisecond) // the burst that an idle destination has saved up
			before := row(t, hosts[0], hosts[1]).TxBytes
			start := time.Now()
			pump(t, a, &wr, 8, 2*time.Second)
			took := time.Since(start)
			time.Sleep(20 * time.Millisecond) // until the last report
			r := row(t, hosts[0], hosts[1])
			got := float64(r.TxBytes-before) * 8 / took.Seconds() // without Ethernet headers
			want := float64(mbit) * 1e6 * 1068 / 1082
			t.Logf("%.2f Mbit/s, %.2f expected; %d paced, %v in all", got/1e6, want/1e6, r.TxPackets, time.Duration(r.PacedNs))
			if ratio := got / want; ratio < .97 || ratio > 1.03 {
				t.Errorf("%.3f times the rate", ratio)
			}
			if r.PacedNs == 0 {
				t.Error("the table does not say that packets waited")
			}
		})
	}
}

// TestNoAllocations: neither a packet nor a message allocates once all has its size.
func TestNoAllocations(t *testing.T) {
	hosts := twoHosts(t, "--pacer", "none")
	a, b := connected(t, hosts, func(*nic.Attr) {})
	for name, wr := range map[string]*qp.SendWR{
		"WRITE": {Op: qp.OpWrite, Flags: qp.Signaled, SGL: a.sge(0, 1<<15), RemoteAddr: b.va, RKey: b.key},
		"READ":  {Op: qp.OpRead, Flags: qp.Signaled, SGL: a.sge(0, 1<<15), RemoteAddr: b.va, RKey: b.key},
		"short": {Op: qp.OpWrite, Flags: qp.Signaled | qp.Inline, Data: a.buf[:64], RemoteAddr: b.va, RKey: b.key},
	} {
		pump(t, a, wr, 32, 300*time.Millisecond)
		debug.SetGCPercent(-1)
		var before, after runtime.MemStats
		packets := counter(a.dev, "sent_pkts") + counter(b.dev, "sent_pkts")
		runtime.ReadMemStats(&before)
		n, _ := pump(t, a, wr, 32, 500*time.Millisecond)
		runtime.ReadMemStats(&after)
		debug.SetGCPercent(100)
		packets = counter(a.dev, "sent_pkts") + counter(b.dev, "sent_pkts") - packets
		allocs := after.Mallocs - before.Mallocs
		t.Logf("%s: %d messages, %d packets, %d allocations", name, n, packets, allocs)
		// Reports to the table, a few hundred a second, take some each.
		if float64(allocs) > .05*float64(packets)+5000 {
			t.Errorf("%s: %d allocations for %d packets", name, allocs, packets)
		}
	}
}

func row(t testing.TB, from, to *engines.Host) (r struct{ TxBytes, TxPackets, PacedNs uint64 }) {
	t.Helper()
	x, found, err := from.Attachment(t).Lookup(to.IPv4())
	if err != nil || !found {
		t.Fatalf("no entry (%v)", err)
	}
	r.TxBytes, r.TxPackets, r.PacedNs = x.Regs.TxBytes, x.Regs.TxPackets, x.Regs.PacedNs
	return r
}

// BenchmarkWrite is bandwidth by message size: one queue pair, PMTU 4096.
func BenchmarkWrite(b *testing.B) {
	hosts := engines.New(b, topo.Spec{Hosts: topo.Hosts(2), MTU: 4400}, "--pacer", "none")
	for _, h := range hosts {
		h.MustOpen(b, nic.Options{})
	}
	for _, op := range []qp.Operation{qp.OpWrite, qp.OpRead} {
		for _, size := range []int{8, 4096, 65536, 1 << 20} {
			b.Run(fmt.Sprintf("op%d/%d", op, size), func(b *testing.B) {
				x, y := newSide(b, hosts[0], qp.RC, 1<<20), newSide(b, hosts[1], qp.RC, 1<<20)
				if err := engines.Connect(x.qp, y.qp, hosts[0].IPv4(), hosts[1].IPv4(), rocev2.PMTU4096); err != nil {
					b.Fatal(err)
				}
				wr := qp.SendWR{Op: op, Flags: qp.Signaled, SGL: x.sge(0, size), RemoteAddr: y.va, RKey: y.key}
				for b.Loop() {
					n, took := pump(b, x, &wr, 64, time.Second)
					b.ReportMetric(float64(n)*float64(size)*8/took.Seconds()/1e9, "Gbit/s")
					b.ReportMetric(float64(n)/took.Seconds(), "msg/s")
				}
				x.close(b)
				y.close(b)
			})
		}
	}
}
