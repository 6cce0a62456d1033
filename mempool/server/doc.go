// SPDX-License-Identifier: Apache-2.0

// Package server lends memory of this host to other nodes, which access it by RDMA READ and WRITE
// (S4.1 to S4.3, docs/run/memory-pool.md). Internal to this project.
//
//	s, err := server.Listen(ctx, dev, ":7178", server.Config{Bytes: 1 << 30})
//	err = s.Serve(ctx)
//
// Package mempool/node is the other end. Package mempool/lease decides which node has which slabs.
//
// # Isolation of nodes
//
// Each node has a protection domain of its own, and each of its slabs is a region there. The keys of one
// node are of no use to another one. A slab that a node no longer has is deregistered before anything else:
// an access with its key gets a NAK (remote access error), which ends the connection. Then the slab is
// zeroed, and only then another node can have it.
//
// Who can reach the port can lease memory. The limits are Config.Bytes and Config.MaxNodes.
package server
