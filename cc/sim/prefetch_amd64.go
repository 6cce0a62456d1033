// SPDX-License-Identifier: Apache-2.0

package sim

// These have cache lines loaded without waiting for them. Go has no word for it, and
// where loads instead decide what is loaded next, they wait.

//go:noescape
func prefetchChunk(x *chunk)

//go:noescape
func prefetchPacket(x *packet)

//go:noescape
func prefetchMeta(x *packetMeta)

//go:noescape
func prefetchPort(x *port)

//go:noescape
func prefetchQueues(x *port)

//go:noescape
func prefetchIngress(x *ingress)

//go:noescape
func prefetchSlot(x *slot)

//go:noescape
func prefetchHost(x *host)

//go:noescape
func prefetchSender(x *Flow)

//go:noescape
func prefetchReceiver(x *Flow)

//go:noescape
func prefetchPacer(x *Pacer)

//go:noescape
func prefetchSelective(x *selective)
