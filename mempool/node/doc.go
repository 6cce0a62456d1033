// SPDX-License-Identifier: Apache-2.0

// Package node uses memory of a memory pool: space that a server leases for a period, accessed by RDMA READ
// and WRITE (S4.3, docs/run/memory-pool.md).
//
//	n, err := node.Join(ctx, dev, "10.0.0.2:7178", node.Config{Name: "web1", Period: time.Second, Demand: 64 << 20})
//	slab := n.Lease().Slabs[0]
//	err = n.Write(ctx, slab.Number, 0, page)
//	err = n.Read(ctx, slab.Number, 0, page)
//	err = n.Leave(ctx)
//
// Package mempool/server is the other end.
//
// # Leases
//
// A lease is a list of slabs. It is valid until the next one, which comes at the start of the next period.
// Slabs that must be returned have a deadline: the application copies what it needs, and calls Return. Slabs
// that it has not returned shortly before the deadline are returned by the package, so that no access meets
// a key that is no longer valid. After Return, the package refuses accesses to the slab (ErrNotLeased).
//
// # Data that is lost
//
// The server keeps the lease for Welcome.Hold after the connection has ended. Join with the Ticket of the
// old connection returns the same slabs. Resumed says whether their data is still there: it is not after a
// restart of the server, and not if the lease has ended in the meantime.
package node
