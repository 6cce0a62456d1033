// SPDX-License-Identifier: Apache-2.0

// Package pages stores pages by number in the space that a node leases (mempool/node): the remote side of a
// virtual memory manager (S4.4).
//
// A page is placed in a slab when it is written. When a slab must be returned, its pages move to other
// slabs, as far as there is room. A page whose slab has ended is lost: to read it is ErrLost, never other
// bytes. Once it is written again, it is no longer lost.
//
// Pages with neighbouring numbers are placed next to each other while there is room (place.go), and requests
// of such pages that follow each other are one READ or WRITE (combine.go).
//
// The store sets the demand of the node: Config.Demand, or what is stored and what found no room, if that
// is more.
package pages
