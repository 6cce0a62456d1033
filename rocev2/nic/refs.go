// SPDX-License-Identifier: Apache-2.0

package nic

import "sync/atomic"

// users counts the queue pairs that use a CQ or an SRQ, until that ends: after end none can
// join. Of a join and an end at the same time one fails.
type users struct{ n atomic.Int32 }

const noMore = -1 // n after end

// join counts one more. False: it has ended.
func (u *users) join() bool {
	for {
		n := u.n.Load()
		if n == noMore {
			return false
		}
		if u.n.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (u *users) leave() { u.n.Add(-1) }

// end has all joins fail from now on, unless there are users: it returns how many. first:
// this call has ended it.
func (u *users) end() (left int32, first bool) {
	for {
		switch n := u.n.Load(); {
		case n == noMore:
			return 0, false
		case n > 0:
			return n, false
		case u.n.CompareAndSwap(0, noMore):
			return 0, true
		}
	}
}

func (u *users) ended() bool { return u.n.Load() == noMore }
