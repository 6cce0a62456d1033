// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/bpf/bench"
)

// BenchmarkDataPlane reports each row of package bench as a metric: nanoseconds a
// packet over an empty program. `go run ./bpf/benchreport` prints the same as a
// table, with the targets.
func BenchmarkDataPlane(b *testing.B) {
	requireRoot(b)
	for b.Loop() {
		rows, err := bench.Run(31)
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range rows {
			b.ReportMetric(r.Ns, strings.ReplaceAll(r.Program+"_"+r.Packet, " ", "_")+"_ns")
		}
	}
}
