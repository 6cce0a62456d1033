// SPDX-License-Identifier: Apache-2.0

// Package oracle has Linux rdma_rxe judge a RoCEv2 implementation, as requester and as responder.
//
// The cases are written with package verbs, and a Side is a device of it. A Judge is rxe in a machine
// of package rxepeer, as such a device: a helper in C (helper/, built for the machine's own libibverbs)
// takes lines from a virtio-serial port, so it is reached while a test breaks the network. codec.go
// translates verbs to these lines. Package sides has the engine and the model of the card as Sides.
// Cases are the table of operations, sizes, PMTUs, address families, directions and impairments that two
// Sides go through, every byte compared; Refusals are requests that must fail, and how. A Star is one
// Side that distributes what another one writes.
//
//	net, err := rxepeer.NewNet(4200)
//	host, err := net.AddHost(rxepeer.HostConfig{Name: "engine", MTU: 4200, Addrs: ...})
//	cfg, err := oracle.Prepare(ctx, rxepeer.Config{Name: "judge", NICs: ...})
//	vm, err := rxepeer.Boot(ctx, cfg)
//	judge, err := oracle.Open(ctx, vm)
//	bench := &oracle.Bench{A: judge, B: engine, Impair: oracle.ImpairBetween(vm)}
//	for _, c := range oracle.QuickCases() {
//		err := bench.Run(ctx, c)
//	}
//
// Its own tests run rxe against rxe, since what does not pass there is no case, and the engine
// and the model of the card (package sides) against rxe. The cases avoid three peculiarities of rxe 6.12.
// A failed BIND_MW ends as "flushed", and destroying its queue pair then takes most of a minute. A window
// must be invalidated before it is bound again. The completion of SEND_INV has a flag bit of the kernel,
// which helper/poll.c removes.
package oracle
