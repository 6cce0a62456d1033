// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"runtime"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

// In copy mode the kernel transmits in the thread that asks for it, some 2 us a
// packet, with the network driver. That thread is the owner of the loop, which is quickest, as
// long as its batches are not large; where they are, a second thread sends while the
// owner builds the next ones. It must have much to do at once: to be woken up for
// less costs more than it gains.

// inlineKick is how many frames the owner of the loop sends by itself; a packet of more than
// 4 KB takes two.
const inlineKick = 256

func newKicker() kicker {
	return kicker{wake: make(chan struct{}, 1), ended: make(chan struct{}), alone: runtime.GOMAXPROCS(0) == 1}
}

// submit shows the kernel what was pushed in this iteration.
func (e *runner) submit() {
	again := e.pendingKick
	e.pendingKick = false
	for _, r := range e.rails {
		if r.submit(again) {
			e.pendingKick = true
		}
		if r.kick.gone.Load() {
			e.failed = verbs.ErrGone
		}
	}
}

// submit is that of one interface. again: packets of an earlier iteration are left, on this interface or
// another one. It returns whether some are left that no second thread sends.
func (r *rail) submit(again bool) bool {
	pending := 0
	for _, s := range r.socks {
		if s.pushed > 0 {
			pending += s.xsk.Submit()
			s.pushed = 0
		} else if again {
			pending += s.xsk.Pending()
		}
	}
	switch {
	case pending == 0 || r.kick.busy.Load():
	case pending <= inlineKick || r.kick.alone:
		left := 0
		for _, s := range r.socks {
			n, _, _ := r.kick.do(s.xsk)
			left += n
		}
		if left > 0 && !r.kick.alone {
			r.kick.start()
		}
		return left > 0 && r.kick.alone
	default:
		r.kick.start()
	}
	return false
}

// start sets the second thread to work, which does nothing now.
func (k *kicker) start() {
	k.busy.Store(true)
	k.wake <- struct{}{} // it has taken the last one
}

// do kicks one socket and returns how many packets are left, with those that were
// submitted meanwhile, and whether the kernel took any. ok is false if it takes none
// at all: the link is down.
func (k *kicker) do(s *xsk.Socket) (left int, took, ok bool) {
	left, took, err := s.KickAll()
	if errors.Is(err, xsk.ErrGone) {
		k.gone.Store(true)
	}
	return left, took, err == nil
}

// Pauses of the second thread, while the network driver's queue is full and while the link
// is down.
const (
	fullPause = 20 * time.Microsecond
	downPause = time.Millisecond

	// lastTries is how often it finds the network driver's queue full before it ends with what is left.
	lastTries = 1000
)

// run is the second thread, until wake is closed.
func (k *kicker) run(socks []*sock) {
	defer close(k.ended)
	for range k.wake {
		for last := 0; ; {
			left, pause := 0, fullPause
			for _, s := range socks {
				n, took, ok := k.do(s.xsk)
				left += n
				switch {
				case !ok:
					pause = downPause
				case took && pause != downPause:
					pause = 0
				}
			}
			k.down.Store(pause == downPause)
			if left > 0 && pause > 0 && k.stop.Load() {
				if last++; pause == downPause || last > lastTries {
					return
				}
			}
			if left > 0 {
				if pause > 0 {
					time.Sleep(pause)
				}
				continue
			}
			k.busy.Store(false)
			// What was submitted between the last kick and here saw us busy.
			if k.idle(socks) || !k.busy.CompareAndSwap(false, true) {
				break
			}
		}
	}
}

func (k *kicker) idle(socks []*sock) bool {
	for _, s := range socks {
		if s.xsk.Pending() > 0 {
			return false
		}
	}
	return true
}
