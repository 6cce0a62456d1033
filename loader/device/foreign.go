// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// A system call on a descriptor that a process has passed may take as long as that process likes:
// fstatfs and close of a file of FUSE wait for its file system, close of a TCP socket waits for
// SO_LINGER. So such calls have a goroutine of their own, with a limit of time and without a lock.
// A process that exceeds it loses its connection. It counts as a process of its user until the call
// returns, which limits the number of such goroutines.

const (
	foreignLooks    = 20
	foreignPatience = foreignLooks * lookTime
)

// within calls f, and returns false if it takes longer than foreignPatience. f goes on then.
func (k *socket) within(f func()) bool {
	done := make(chan struct{})
	k.lastCall = done
	go func() {
		defer close(done)
		f()
	}()
	if looked(done, foreignLooks) {
		return true
	}
	k.s.log.Warn("a descriptor that a process has passed blocks: the process loses its connection", "pid", k.process.pid, "uid", k.process.uid)
	k.late = append(k.late, done)
	k.hangUp()
	return false
}

// patiently calls open, which uses descriptors of the process. If it takes too long, what it opens is
// closed later, and the descriptors too.
func patiently[T any](k *socket, fds []int, open func() (T, error), cancel func(T)) (v T, err error) {
	var decided atomic.Bool // open has returned in time, or it is too late
	if k.within(func() {
		got, failed := open()
		if decided.CompareAndSwap(false, true) {
			v, err = got, failed
			return
		}
		if failed == nil {
			cancel(got)
		}
		proto.CloseFDs(fds)
	}) || !decided.CompareAndSwap(false, true) {
		<-k.lastCall
		return v, err
	}
	k.abandoned = true
	var none T
	return none, fmt.Errorf("the descriptor has not answered for %v; pass one of procfs or a memfd", foreignPatience)
}

// discard closes descriptors that a process has passed.
func (k *socket) discard(fds []int) {
	if len(fds) > 0 {
		k.within(func() { proto.CloseFDs(fds) })
	}
}

// closeAccount gives back what the process was charged for, when no call on its descriptors is left.
func (c *session) closeAccount() {
	if len(c.socket.late) == 0 {
		c.account.Close()
		return
	}
	go func() {
		for _, done := range c.socket.late {
			<-done
		}
		c.account.Close()
	}()
}

// hangUp ends the connection. Any goroutine may call it. The goroutine of the process closes the
// socket: the descriptors in messages that nobody has read are closed with it, which may block.
func (k *socket) hangUp() {
	if k.over.CompareAndSwap(false, true) {
		close(k.hung)
	}
	_ = k.conn.SetDeadline(time.Unix(1, 0))
}
