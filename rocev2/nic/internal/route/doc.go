// SPDX-License-Identifier: Apache-2.0

// Package route tells the engine how to reach a destination through one interface:
// source address, next hop, MAC addresses and MTU, and keeps that true while
// routes, neighbours, addresses and the link change. It also numbers the
// interface's addresses as GIDs.
//
//	t, err := route.Open("eth0", route.Options{OnEvent: ...}) // in the interface's namespace
//	p, err := t.ResolveFrom(gid, peer)                        // control path
//	state, err := p.Wait(ctx)                                 // until the neighbour answered
//	...
//	s := p.Current()                                          // per packet: one atomic load
//	if s.Err == nil { copy(frame, s.Ether[:]) }
//
// Like rxe, all lookups are bound to the interface: a route through another one
// does not count.
//
// # How it follows the kernel
//
// One netlink socket listens to links, addresses, routes and neighbours. What it
// says about the first three is only taken as a hint: everything is asked for
// again, once for a burst of messages. So a lost message (ENOBUFS) is no special
// case, and policy routing, metrics and gateways are the kernel's business.
//
// Packets of the engine do not pass the kernel's neighbour code, which therefore
// neither resolves nor confirms anything on their behalf. The package does: it
// asks the kernel to use an entry (NTF_USE), which sends ARP or neighbour
// solicitation by the kernel's rules, when an entry is missing, and when it became
// stale. A MAC address stays in use until the kernel declares the neighbour
// failed. A failed neighbour is asked for again at once if it was in use, after 1 s to
// 30 s then, and at once when a path through it is resolved or the link is back.
// NTF_USE makes a permanent entry forget that it is one, so an entry is looked at first.
package route
