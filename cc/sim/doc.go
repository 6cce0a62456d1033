// SPDX-License-Identifier: Apache-2.0

// Package sim is a deterministic packet-level simulator for congestion control.
// It has links with delay, switches with shared buffers, hosts with clocks of
// their own, and RoCEv2-like transports; the policies that it drives are the code
// that the NIC runs. The same scenario gives the same bytes: one goroutine, no
// wall clock, seeded PCG randomness, no order taken from a map. Runs share
// nothing, so different scenarios may run in parallel.
//
//	t := sim.Star(9, sim.Link{Bps: 100e9, Delay: sim.Microsecond})
//	n, err := sim.New(sim.Config{Seed: 1}, t, scheme)
//	f := n.Add(sim.FlowSpec{Src: 1, Dst: 0, Bytes: 1 << 20})
//	n.Run(10 * sim.Millisecond)
//	fmt.Println(f.FCTNs(), n.Slowdown(f))
//
// # For those who write a scheme
//
// Read control.go and pacer.go; everything else can stay closed. A scheme is a
// Scheme that makes a Control for each pacer. The Control gets events and sets
// RateBps, WindowBytes, CreditBytes and TimerNs of its Pacer:
//
//	type control struct{ sim.NoControl }
//
//	func (control) Ack(now int64, p *sim.Pacer, a *sim.Ack) {
//		if a.CE > 0 {
//			p.RateBps -= p.RateBps / 8
//		}
//	}
//
// fixed.go holds the two simplest ones. Receiver-driven schemes also make a
// Receiver, which sends CNPs, credits and grants and puts credit into ACKs:
//
//   - DCQCN: Receiver.Data calls Out.CNP for marked packets, at most one in 50 µs.
//   - ExpressPass: Control.Start sends MsgRequest (Pacer.Send), Receiver.Message
//     starts a timer of that flow (Out.WakeAt), each Expire sends a MsgCredit, and
//     Control.Message adds a packet's payload to CreditBytes. Data.Tag carries the
//     credit's number back, from which the Receiver learns the credit loss.
//   - pre-credit (S5): Receiver.Connect gives the grant of the connection,
//     Receiver.Data answers with Reply.CreditBytes, MsgGrant and MsgReturn move it.
//
// # Inside
//
// Time is counted in picoseconds, so that a byte at 400 Gb/s is a whole number of
// them. Events are small values in a queue without pointers; packets are pooled
// and known by their index. event.go, packet.go, port.go, switch.go, host.go,
// send.go and recv.go follow a packet's path.
//
// What makes a large network slow is memory, as each event meets other packets,
// ports and flows. So what is needed together shares cache lines (lines_test.go),
// prefetcher.go fetches what the next events need, and hugepages_linux.go and slab.go keep
// all of it in large pages.
package sim
