// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// BenchmarkEvaluate is what an evaluation costs for each active destination: collect, decide,
// apply. With 0 destinations it is the cost of a tick of which none is active.
func BenchmarkEvaluate(b *testing.B) {
	for _, behind := range []string{"model", "socket"} {
		for _, active := range []int{0, 1, 64} {
			b.Run(fmt.Sprintf("%s/%d", behind, active), func(b *testing.B) { benchmarkEvaluate(b, behind == "socket", active) })
		}
	}
}

func benchmarkEvaluate(b *testing.B, socket bool, active int) {
	now := uint64(time.Hour)
	m := card.NewAt(func() uint64 { return now })
	d := hwoffload.Device(m)
	if socket {
		l, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		go hwoffload.Serve(l, m)
		s, err := hwoffload.Dial("unix:"+l.Addr().String(), time.Minute)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		d = s
	}
	c, err := hwoffload.Open(d)
	if err != nil {
		b.Fatal(err)
	}
	tab, err := driver.NewTable(c)
	if err != nil {
		b.Fatal(err)
	}
	var list []driver.Node
	for i := range max(active, 1) {
		list = append(list, driver.Node{Number: uint32(i + 1), Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})})
		regs.DestOf(m, i).SetRxToken(token)
	}
	if err := tab.SetNodes(0, list); err != nil {
		b.Fatal(err)
	}
	a, err := driver.NewAgent(tab, options(tab))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		now += uint64(10 * time.Millisecond)
		for i := range active {
			packet, at := feedback(now-100_000, 50_000, 50_000)
			m.Receive(i+1, packet, at)
		}
		b.StartTimer()
		if n, err := a.Evaluate(); err != nil || n != active {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*max(active, 1)), "ns/dest")
}
