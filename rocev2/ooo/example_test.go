// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// A WRITE of three packets with notification, whose packets arrive in reverse order.
func Example() {
	memory := [2]*wiretest.Memory{{}, {}}
	source := memory[0].Register(0, 3000, 0)
	target := memory[1].Register(0, 3000, verbs.AccessRemoteWrite)
	var queues ooo.Queues
	queue, err := queues.Create(7, 16)
	if err != nil {
		panic(err)
	}
	completed := func(c verbs.Completion) { fmt.Println("source: message", c.WRID, c.Status) }
	a, err := ooo.New(ooo.Config{QPN: 1, PeerQPN: 2, PMTU: rocev2.PMTU1024, Memory: memory[0], Complete: completed})
	if err != nil {
		panic(err)
	}
	b, err := ooo.New(ooo.Config{QPN: 2, PeerQPN: 1, PMTU: rocev2.PMTU1024, Memory: memory[1], Queues: &queues})
	if err != nil {
		panic(err)
	}
	err = a.Post(&ooo.Request{
		ID: 5, Op: verbs.OpWrite, Local: verbs.SGE{Addr: source.Addr, Len: 3000, LKey: source.Key},
		RemoteAddr: target.Addr, RKey: target.Key, Notify: true, Queue: 7, Descriptor: 99,
	})
	if err != nil {
		panic(err)
	}
	now := ooo.Microsecond
	for {
		packets := send(a, now)
		if len(packets) == 0 {
			break
		}
		for i := len(packets) - 1; i >= 0; i-- { // the last one first
			now += ooo.Microsecond
			fmt.Println("arrives:", packets[i].Opcode(), packets[i].BTH().PSN())
			b.Receive(now, &packets[i], 0)
		}
		for _, p := range send(b, now) {
			now += ooo.Microsecond
			a.Receive(now, &p, 0)
		}
		if n, ok := queue.Poll(); ok {
			fmt.Println("target: notified of", n.Length, "bytes, descriptor", n.Descriptor)
		}
	}
	// Output:
	// arrives: OWRITE 2
	// arrives: OWRITE 1
	// arrives: OWRITE 0
	// arrives: ONOTIFY 3
	// source: message 5 success
	// target: notified of 3000 bytes, descriptor 99
}

// send returns the packets that the queue pair wants to send, as an engine builds them.
func send(q *ooo.QP, now ooo.Time) (packets []rocev2.Packet) {
	var o ooo.Outbound
	for q.NextAck(&o) || q.NextData(now, &o) {
		if p := build(&o); p != nil {
			packets = append(packets, *p)
		}
	}
	return packets
}

// sendOn returns the next packet of data of a rail, or nil.
func sendOn(q *ooo.QP, now ooo.Time, rail int) *rocev2.Packet {
	var o ooo.Outbound
	if !q.NextDataOn(now, rail, &o) {
		return nil
	}
	return build(&o)
}

// build returns a packet as it arrives, or nil if its memory is not accessible.
func build(o *ooo.Outbound) *rocev2.Packet {
	o.Payload = make([]byte, o.PayloadLen)
	if !o.Fill(o.Payload) {
		return nil
	}
	o.Src, o.Dst = netip.AddrFrom4([4]byte{10, 0, 0, 1}), netip.AddrFrom4([4]byte{10, 0, 0, 2})
	b, err := o.AppendTo(nil)
	if err != nil {
		panic(err)
	}
	p, err := rocev2.ParseIP(b)
	if err != nil {
		panic(err)
	}
	return &p
}
