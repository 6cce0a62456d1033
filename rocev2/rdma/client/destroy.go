// SPDX-License-Identifier: Apache-2.0

package client

import (
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// ringUser is a queue whose rings are in memory that the server has mapped too.
type ringUser interface {
	detach() []byte // takes the memory from the queue; nil if it has none
	attach([]byte)  // gives it back
	unmap()
}

// destroy ends a queue that is in all, with a message of type t. It reports false if the queue has no memory:
// another call has destroyed it, or does.
//
// The server may give memory and handle of the queue to another one before its reply has arrived. So the queue
// leaves both before the message, and has them again if the server refuses.
func destroy[Q ringUser](d *Device, all map[uint32]Q, q Q, handle uint32, t proto.Type) (bool, error) {
	memory := q.detach()
	if memory == nil {
		return false, nil
	}
	d.mu.Lock()
	delete(all, handle)
	d.mu.Unlock()
	if err := d.end(t, handle); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		q.attach(memory)
		if d.closed.Load() { // Close may have unmapped the others already
			q.unmap()
		} else {
			all[handle] = q
		}
		return true, err
	}
	_ = unix.Munmap(memory)
	return true, nil
}
