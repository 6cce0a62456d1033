// SPDX-License-Identifier: Apache-2.0

package device

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// Control messages cost CPU time of the server, so their rate is limited (limits.Calls). A message takes
// 20 to 60 us of CPU time, and counts as limits.Call. The server does not read further messages of a process that is over
// the limit, so the process blocks when it sends.

// What counts more than one call.
const (
	callsToAccept = 4       // a connection to the socket: less than the rate of a user at acceptRate
	callsToOpen   = 12      // a hello, with the end of the process
	callsOfEngine = 4       // a message that changes what the engine's thread has
	callsInBatch  = 2       // such a request of a batch
	bytesOfCall   = 1 << 19 // so many bytes of other memory to register, while the process changes its page tables too
	stepsOfCall   = 16      // so many mappings of that memory
	entriesOfCall = 1 << 12 // so many entries of a completion queue to resize
)

// callsOf is what a message counts. What it causes later, such as the end of a process, is included.
// regMemory counts the memory, of which the message alone says nothing.
func callsOf(t proto.Type) uint64 {
	switch t {
	case proto.TCreateQP, proto.TModifyQP, proto.TEncryptQP, proto.TDestroyQP, proto.TCreateSRQ, proto.TDestroySRQ, proto.TCreateAH, proto.TDestroyAH,
		proto.TResizeCQ, proto.TCMConnect, proto.TCMResolve, proto.TCMListen, proto.TCMAccept:
		return callsOfEngine
	}
	return 1
}

// callsOfBatch is what a batch counts: less than usual for what changes what the engine's thread has, since that
// thread is awake from the first on.
func callsOfBatch(parts []proto.Part) uint64 {
	n := uint64(0)
	for _, p := range parts {
		n += min(callsOf(p.Type), callsInBatch)
	}
	return max(n, 1)
}

const (
	// shortWait is the shortest wait: several messages together cost less than one timer for each.
	shortWait = 20 * time.Millisecond
	// paceStep is how often a wait looks whether the process is still there.
	paceStep = 100 * time.Millisecond
)

// callCosts are what the messages of a process cost. Any goroutine may use them.
type callCosts struct {
	account *limits.Process
	now     func() time.Duration
	debt    atomic.Int64 // ns until the process may make another call; see socket.pace
	delayed atomic.Int64 // ns that pace has waited
}

// spend counts processor time.
func (k *callCosts) spend(cost time.Duration) { k.debt.Store(int64(k.account.Spend(k.now(), cost))) }

// call counts messages.
func (k *callCosts) call(n uint64) { k.spend(time.Duration(n) * limits.Call) }

// pace waits until the process may make another call. false: the process or its connection has ended.
func (k *socket) pace() bool {
	wait := time.Duration(k.costs.debt.Swap(0))
	if wait < shortWait {
		return true
	}
	k.costs.delayed.Add(int64(wait))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ; wait > 0; wait -= paceStep {
		timer.Reset(min(wait, paceStep))
		select {
		case <-timer.C:
		case <-k.hung:
			return false
		}
		if k.left() {
			return false
		}
	}
	return true
}

// left reports whether the process has closed its end of the socket.
func (k *socket) left() (left bool) {
	raw, err := k.conn.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		left = err == nil && n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP) != 0
	})
	return left || err != nil
}

// The kernel wakes all that wait for the socket of a process with each message that the server sends or
// receives there, in the thread of the server. A process can wait in tens of thousands of epoll entries, so that a
// message takes milliseconds of CPU time. The time of a message that takes long counts too, and so the server gets slower
// for this process only.

// metered makes a system call on the socket of the process, and counts its CPU time if it took long.
func (k *socket) metered(call func()) {
	runtime.LockOSThread() // whose time is measured
	began := threadTime()
	call()
	took := threadTime() - began
	runtime.UnlockOSThread()
	if took >= longSignal {
		k.costs.spend(took)
	}
}
