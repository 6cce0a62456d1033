// SPDX-License-Identifier: Apache-2.0

package precredit_test

import (
	"fmt"

	"github.com/softroce/softroce-xdp/cc/precredit"
)

// A receiver grants pre-credit when a queue pair connects. The first packets of a message
// leave on it, and the first ACK ends that and brings the credit back.
func Example() {
	const link, rtt, packet = 10_000_000_000, 10_000, 1000 // bit/s, ns, bytes
	now, peer := int64(0), precredit.SenderID(7)
	plan := precredit.Plan(link, rtt, 100_000, packet, 0)
	receiver := precredit.NewReceiver(plan, 1)
	sender := precredit.NewSender(precredit.SenderParams{
		LinkBps: link, RTTNs: rtt, BDPBytes: precredit.BDP(link, rtt), MaxWaitNs: 10_000_000,
		SmallBias: precredit.DefaultSmallBias, AgingStep: precredit.DefaultAgingStep,
	})

	// Connection: CREDIT_GRANT there, CREDIT_RETURN back.
	rule := receiver.NewFlow(now, peer).Rule
	for _, grant, ok := receiver.Next(now); ok; _, grant, ok = receiver.Next(now) {
		fmt.Println("granted", grant.Limit, "bytes by rule", rule)
		if m, send := sender.Grant(now, grant); send {
			receiver.Return(now, peer, m)
		}
	}

	// A message of 3000 bytes.
	flow := precredit.Flow{Packet: packet}
	sender.Post(now, &flow, precredit.Work{First: true, Idle: true, Bytes: 3000, Features: precredit.Features{TotalBytes: 3000, PostedBytes: 3000}})
	var ack precredit.Credit
	for f := sender.Next(now, 0); f != nil; f = sender.Next(now, 0) {
		stamp, _ := sender.Sent(now, f, packet, true, false)
		fmt.Println("packet on pre-credit, sent so far", stamp.Bytes)
		receiver.Arrive(now, peer, packet, stamp)
		ack, _ = receiver.DstScheduleCredit(now, peer, packet)
	}
	now += rtt
	sender.Answer(now, &flow, precredit.Answer{Credit: ack, HasCredit: true, RTTNs: rtt, InFlight: 3000, Acked: 3000})
	fmt.Println("outstanding", receiver.Outstanding(), "bytes, limit", ack.Bytes)
	// Output:
	// granted 12000 bytes by rule free
	// packet on pre-credit, sent so far 1000
	// packet on pre-credit, sent so far 2000
	// packet on pre-credit, sent so far 3000
	// outstanding 12000 bytes, limit 15000
}
