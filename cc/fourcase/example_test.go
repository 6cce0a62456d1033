// SPDX-License-Identifier: Apache-2.0

package fourcase_test

import (
	"fmt"

	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// A destination on a link of 10 Gbit/s. Its one-way delay rises above the base delay of 5 us after the
// second evaluation, so the rate decreases.
func ExampleStep() {
	p := fourcase.DefaultParams(10e9)
	var r fourcase.Regs
	now := uint64(0)
	for _, tx := range []int64{5_000, 5_000, 905_000, 1_805_000} {
		now += p.IntervalNs
		d := fourcase.Step(&r, &p, fourcase.Sample{Tx: tx, Rx: 5_000, Samples: 10, RTT: tx + 5_000}, now)
		fmt.Printf("%d us: %d Mbit/s, case %d, %s\n", tx/1000, d.RateBps/1e6, d.Case, d.Reason())
	}
	// Output:
	// 5 us: 10000 Mbit/s, case 0, first sample: it sets the base delays
	// 5 us: 10000 Mbit/s, case 4, at the base delay, already at the highest rate
	// 905 us: 7675 Mbit/s, case 0, queueing delay above four times the target
	// 1805 us: 5636 Mbit/s, case 0, queueing delay above four times the target
}
