// SPDX-License-Identifier: Apache-2.0

// Package directory lists the servers of a memory pool (mempool/server), so that a node can take memory of
// several of them (mempool/spread, docs/run/memory-pool.md). Internal to this project.
//
//	d, err := etcd.Open("http://10.0.0.9:2379")
//	list, err := d.Servers(ctx)
//
// Package mempool/directory/etcd keeps the list in etcd. One is a directory of one server that needs no
// engine.
//
// A server announces itself, and which nodes lease its memory, with Announce. Its entry ends a limited time
// after the server has ended or cannot reach the directory (Entry.TTL). Who has which slabs is decided by
// each server alone: the directory only tells who is there. So nodes that run need no directory.
package directory
