// SPDX-License-Identifier: Apache-2.0

package hwoffload_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// BenchmarkAccess measures register accesses of each backend: reads that wait for their
// answers, and posted writes with one read at the end. bar is a plain file.
func BenchmarkAccess(b *testing.B) {
	backends := map[string]func(b *testing.B) hwoffload.Device{
		"model":  func(*testing.B) hwoffload.Device { return card.New() },
		"socket": func(b *testing.B) hwoffload.Device { return dial(b, serve(b, card.New())) },
		"bar":    func(b *testing.B) hwoffload.Device { return openBAR(b, barFile(b)) },
	}
	for _, name := range []string{"model", "socket", "bar"} {
		d := backends[name](b)
		b.Run(name+"/read", func(b *testing.B) {
			for range b.N {
				d.R32(regs.IdentScratchOffset)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "accesses/s")
		})
		b.Run(name+"/write", func(b *testing.B) {
			for i := range b.N {
				d.W32(regs.IdentScratchOffset, uint32(i))
			}
			d.R32(regs.IdentScratchOffset)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "accesses/s")
		})
		if d.Err() != nil {
			b.Fatal(d.Err())
		}
	}
}
