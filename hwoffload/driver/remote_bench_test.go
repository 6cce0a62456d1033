// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/rocev2/task"
)

// BenchmarkRemoteTask sends tasks of 4 KB from one model to another, eight at a time: executed by the
// cores of the card, and by a server on its host, which accesses the card by registers.
func BenchmarkRemoteTask(b *testing.B) {
	for name, serve := range executors {
		b.Run(name, func(b *testing.B) {
			w := newLiveWorld(b, card.Faults{}, false)
			here, there := w.pair(rc)
			serve(w, there, &task.Regions{})
			w.connect(here, there)
			client, err := task.NewClient(task.ClientConfig{PD: here.pd, QP: here.qp, CQ: here.cq})
			w.must(err)
			b.Cleanup(func() { w.must(client.Close()) })
			in, out := here.memory(make([]byte, 4096), allRights), here.memory(make([]byte, 4), allRights)
			d := task.Descriptor{
				Kernel: task.KernelCRC32C, Immediate: true,
				Operands: []task.Operand{operand(in, task.Uint8, true, 4096)}, Result: operand(out, task.Uint32, true, 1),
			}
			b.SetParallelism(4)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					d := d
					if err := client.Do(w.limit(), &d); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}
