// SPDX-License-Identifier: Apache-2.0

package main

// A ring adds vectors of several nodes, so that each node has the sum (all-reduce). It shows
// what compute tasks in the NIC are for (S1.7).
//
// The nodes form a ring; each is connected to the next one. A vector of n nodes has n parts. In n-1 steps
// each node adds one of its parts to that of the next node; in n-1 further steps the complete sums go
// around. Each node sends 2 (n-1)/n of the length of the vector.
//
// The sums are computed in one of two ways:
//
//   - Here: the node writes its part to staging memory of the next node, whose program adds it.
//   - In the NIC (Config.Executor): the node sends the next one a task that reads the part and adds it
//     in place. The program of the next node only learns that it is done.
//
// Both add in the same order, so results are the same bits.
//
//	r, err := Join(ctx, dev, Config{Listen: ":7177", Next: "10.0.0.3:7177", Rank: 1, Nodes: 4, Vector: v, Type: compute.Float32})
//	err = r.AllReduce(ctx)
