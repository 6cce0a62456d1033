// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/bench/xdpbench"
)

// BenchmarkDataPlane reports each row of package xdpbench as a metric: nanoseconds a
// packet over an empty program. `bench xdp` prints the same as a
// table, with the targets.
func BenchmarkDataPlane(b *testing.B) {
	requireRoot(b)
	for b.Loop() {
		rows, err := xdpbench.Run(b.Context(), 31)
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range rows {
			b.ReportMetric(r.Ns, strings.ReplaceAll(r.Program+"_"+r.Packet, " ", "_")+"_ns")
		}
	}
}
