// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// WriteCSV writes results with one figure a line: scenario, scheme, seed, what the
// figure is about (nothing, a bucket or a flow), its name and value. Times are
// nanoseconds, rates bit/s, shares numbers.
func WriteCSV(w io.Writer, results []*Result) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"scenario", "scheme", "seed", "of", "figure", "value"}) // Error returns what fails
	for _, r := range results {
		line := func(of, name string, v float64) {
			_ = c.Write([]string{r.Scenario, r.Scheme, strconv.FormatUint(r.Seed, 10), of, name, strconv.FormatFloat(v, 'g', 10, 64)})
		}
		for _, m := range scenario.Metrics {
			if v, ok := r.Values[m.Name]; ok && v < Never {
				line("", m.Name, v)
			}
		}
		for _, f := range r.Flows {
			line(fmt.Sprintf("flow %d-%d", f.Src, f.Dst), "bps", f.Bps)
		}
		for _, b := range r.Buckets {
			of := BucketName(b.Bytes)
			line(of, "count", float64(b.Count))
			if b.Count > 0 {
				line(of, "slowdown-p50", b.P50)
				line(of, "slowdown-p95", b.P95)
				line(of, "slowdown-p99", b.P99)
				line(of, "one-rtt", b.OneRTT)
			}
		}
		line("", "packets", float64(r.Cost.Packets))
		line("", "hops", float64(r.Cost.Hops))
	}
	c.Flush()
	return c.Error()
}
