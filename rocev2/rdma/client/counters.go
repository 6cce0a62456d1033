// SPDX-License-Identifier: Apache-2.0

package client

import (
	"slices"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var _ verbs.Statistics = (*Device)(nil)

// Counters implements verbs.Statistics. The counters of queue pairs are those of this process, since it
// has opened the device. Packets that were dropped without a queue pair (rx_icrc_encapsulated,
// rx_xsk_dropped and so on) are counted for all processes together. When the device has ended, it returns what it
// returned last.
func (d *Device) Counters() []verbs.Counter {
	var all []verbs.Counter
	for {
		var r proto.CountersReply
		if d.plain(proto.TCounters, &proto.CountersRequest{First: uint32(len(all))}, &r) != nil || r.Count == 0 {
			d.mu.Lock()
			defer d.mu.Unlock()
			return slices.Clone(d.counted)
		}
		for _, c := range r.Counters[:min(r.Count, proto.CountersPart)] {
			all = append(all, c.Verbs())
		}
		if len(all) >= int(r.Total) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.counted = slices.Clone(all)
			return all
		}
	}
}
