// SPDX-License-Identifier: Apache-2.0

// Package poolstore keeps the pages of package vmm in the memory of a pool server, by RDMA READ
// and WRITE (S4.4). Addresses and keys are those of the lease of a node (package mempool/node,
// S4.3); package mempool/pages places the pages in it.
//
//	n, err := node.Join(ctx, dev, "10.0.0.2:7178", node.Config{Name: "web1", Period: time.Second, Demand: 1 << 30})
//	store, err := poolstore.New(n, 1<<30)
//	region, err := vmm.NewRegion(vmm.Config{Size: 4 << 30, Local: 1 << 30}, store)
//
// Over makes such a store of several servers (package mempool/spread).
//
// When the server asks for a slab, its pages are moved to other slabs. Pages that find no room there
// are lost: an access to them is an error, never other bytes.
package poolstore
