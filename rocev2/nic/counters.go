// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"slices"

	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/cmservice"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Counters returns what the device has counted, always the same counters in the same
// order. Where rxe or mlx5 count the same the name is theirs (hw_counters), rxe's first.
func (d *Device) Counters() []verbs.Counter {
	var c engine.Counters
	var q qp.Counters
	var qps int
	var pre engine.PreCreditCounters
	var order ooo.Counters
	var conn cmservice.Counters
	var paths madPathCounters
	if svc := d.cm.svc.Load(); svc != nil {
		conn = svc.Counters()
		paths = d.cm.port.Load().counters()
	}
	d.InLoop(func() {
		e := d.eng.core
		c, order, pre = e.Counters(), e.OOOCounters(), e.PreCreditCounters()
		q, qps = d.eng.counts.total(e.QPCounters()), e.Len()
	})
	return slices.Concat(c.Packets(), engine.OfQueuePairs(&q), d.ofDrops(&c), c.Unproven(), engine.OfOutOfOrder(&order), c.MADs(), []verbs.Counter{
		{Name: "cm_repeated", Value: conn.Repeated, Text: "messages of the communication manager sent again because no answer came"},
		{Name: "cm_requests_dropped", Value: conn.Overflow + conn.NotTaken + conn.Dropped, Text: "requests and messages dropped because their application did not take earlier ones"},
		{Name: "cm_rejected", Value: conn.Rejected, Text: "requests and replies that applications rejected, those with a wrong key among them"},
		{Name: "cm_requests_unresolved", Value: paths.unresolved, Text: "requests dropped: no answer of their sender's neighbour, or others needed the place"},
		{Name: "cm_requests_displaced", Value: conn.Displaced, Text: "requests that have given way to those of other networks, or to proven ones"},
		{Name: "cm_stale_requests", Value: conn.Stale, Text: "requests dropped: their queue pair has a connection, which they do not end"},
		{Name: "cm_asked", Value: conn.Asked, Text: "messages that ask a peer whether it still has a connection"},
		{Name: "cm_messages_unsent", Value: paths.unsent, Text: "messages of the communication manager dropped because their path was not found"},
		{Name: "cm_unexpected", Value: conn.Unexpected + conn.Unowned + conn.Malformed, Text: "messages that fit no connection, or not its state"},
		{Name: "cm_steer_errors", Value: conn.SteerErrors, Text: "messages that ingress could not be told to hand over"},
		{Name: "sync_errors", Value: c.SyncErrors(), Text: "reports to the destination table that failed"},
		{Name: "events_lost", Value: d.eventsLost.Load(), Text: "asynchronous events lost because the queue was full"},
	}, pre.Counters(), []verbs.Counter{
		{Name: "queue_pairs", Value: uint64(qps), Text: "queue pairs that exist now"},
	})
}

// ofDrops are the counters of packets that were dropped before they had a queue pair, and of packets of
// any queue pair that could not be sent as they should be.
func (d *Device) ofDrops(c *engine.Counters) []verbs.Counter {
	var rx [3]uint64
	for s := range d.sockets {
		if st, err := s.Stats(); err == nil {
			rx[0] += st.RxDropped
			rx[1] += st.RxRingFull
			rx[2] += st.RxFillEmpty
		}
	}
	return slices.Concat(c.Drops(), []verbs.Counter{
		{Name: "rx_xsk_dropped", Value: rx[0], Text: "packets that the kernel could not put into a frame"},
		{Name: "rx_xsk_ring_full", Value: rx[1], Text: "packets that found the receive ring full"},
		{Name: "rx_xsk_fill_empty", Value: rx[2], Text: "times that the kernel found no free frame"},
	}, c.Crypt())
}
