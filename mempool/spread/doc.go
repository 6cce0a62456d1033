// SPDX-License-Identifier: Apache-2.0

// Package spread stores pages by number on several servers of a memory pool (docs/run/memory-pool.md), with
// or without a mirror. Internal to this project.
//
//	d, err := etcd.Open("http://10.0.0.9:2379")
//	s, err := spread.Open(ctx, dev, d, spread.Config{Name: "web1", Period: time.Second, Demand: 1 << 30, Mirror: true})
//	s.WritePages(list)
//
// A page goes to the server with the most room in the lease of this node. What the node wants of each server
// follows what is free there.
//
// # Mirror
//
// With a mirror, a WRITE completes when two servers have the page, and a READ is answered by the first of them
// that has it. When one is gone, the other one serves, and its pages are copied to a third server. While fewer
// than two servers can be reached, a WRITE completes with one copy; the second one is made as soon as
// there is a server for it.
//
// # Lost pages
//
// Only a copy that has the last content is ever read: a copy whose WRITE was not acknowledged does not count.
// A page without such a copy is ErrLost, until it is written again. It is never zeroes or older bytes.
//
// # Directory
//
// The directory is asked for servers only. While it does not answer, the store goes on with those that it
// has.
//
// # Files
//
//	table.go write.go read.go repair.go   the state machine of pages, without I/O and clock
//	split.go                              what is wanted of each server
//	store.go link.go buffers.go           connections, transfers, memory
package spread
