// SPDX-License-Identifier: Apache-2.0

package node

import "github.com/softroce/softroce-xdp/mempool/lease"

// Types of the answer to Status.
type (
	PoolStatus = lease.Status     // the state of a pool
	NodeStatus = lease.NodeStatus // the state of a node of the pool
	NodeID     = lease.NodeID     // a node's number while the server knows the node, from 1 on
	Prediction = lease.Prediction // what the server expects a node to need
	Counts     = lease.Counts     // events since the start of the server
)
