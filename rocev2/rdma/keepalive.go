// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"sync/atomic"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// keepAlive asks an idle peer whether it is there, with a WRITE of 0 bytes: it needs no key and no
// receive (IBTA C9-88), and the peer's NIC answers it. If the answer does not come, the queue
// pair fails, and with it all operations.
type keepAlive struct {
	active atomic.Bool // a completion was seen since the last look
	asked  atomic.Bool // the WRITE is outstanding
	timer  *time.Timer
}

func (k *keepAlive) start(c *Conn) {
	if d := c.o.keepAlive; d > 0 {
		k.timer = time.AfterFunc(d, func() { k.look(c) })
	}
}

func (k *keepAlive) stop() {
	if k.timer != nil {
		k.timer.Stop()
	}
}

func (k *keepAlive) look(c *Conn) {
	select {
	case <-c.dead:
		return
	default:
	}
	if !k.active.Swap(false) && k.asked.CompareAndSwap(false, true) {
		if c.qp.PostSend(&verbs.SendWR{ID: aliveID, Op: verbs.OpWrite, Flags: verbs.Signaled}) != nil {
			k.asked.Store(false)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		k.timer.Reset(c.o.keepAlive)
	}
}
