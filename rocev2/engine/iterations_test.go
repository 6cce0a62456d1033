// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// An iteration of the loop ends, and everything completes, for any number of queue pairs,
// messages, windows, rates and losses.
func TestIterationsEnd(t *testing.T) {
	ops := []verbs.Op{verbs.OpWrite, verbs.OpRead, verbs.OpSend, verbs.OpFetchAdd}
	watchdog(testkit.Patience, func() {
		rapid.Check(t, func(rt *rapid.T) {
			seed := rapid.Uint64().Draw(rt, "seed")
			pairs := rapid.IntRange(1, 200).Draw(rt, "queue pairs")
			depth := rapid.IntRange(1, 8).Draw(rt, "depth")
			pmtu := rocev2.PMTU(rapid.IntRange(1, 5).Draw(rt, "PMTU"))
			mixed := rapid.SliceOfN(rapid.SampledFrom(ops), 1, 3).Draw(rt, "operations")
			size := rapid.IntRange(1, 9000).Draw(rt, "size")
			loss := rapid.SampledFrom([]float64{0, 0, 0.001, 0.02}).Draw(rt, "loss")
			windows := rapid.SliceOfN(rapid.SampledFrom([]uint64{0, 1, 5000, 100_000, 1 << 20}), 1, 4).Draw(rt, "windows")
			rates := rapid.SliceOfN(rapid.SampledFrom([]uint64{0, 300e6, 10e9}), 1, 3).Draw(rt, "rates")
			var err error
			synctest.Test(t, func(t *testing.T) {
				l := newLoopback(t, seed)
				l.link.loss = loss
				n := 0
				for range pairs {
					x := l.connect(verbs.RC, pmtu, depth)
					for range depth {
						op, bytes := mixed[l.rand.IntN(len(mixed))], size
						switch op {
						case verbs.OpFetchAdd:
							bytes = 8
						case verbs.OpSend:
							bytes = min(size, 4096)
							n++ // the receive completes too
						}
						l.post(x, op, bytes)
						n++
					}
				}
				err = l.run(n, func() time.Duration {
					if d := l.e.dests.rails[0].dests[us]; d != nil && l.iterations%16 == 0 {
						d.setPolicyWindow(l.e, windows[l.rand.IntN(len(windows))])
						d.setRate(l.e, rates[l.rand.IntN(len(rates))])
					}
					return time.Duration(l.rand.IntN(int(20 * time.Microsecond)))
				})
			})
			if err != nil {
				rt.Fatal(err)
			}
		})
	})
}
