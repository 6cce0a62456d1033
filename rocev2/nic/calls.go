// SPDX-License-Identifier: Apache-2.0

package nic

// do has the owner of the loop run f, after everything posted before, and waits for it.
// false: the engine has ended, f did not run.
func (e *runner) do(f func()) bool {
	done := make(chan struct{})
	e.calls.mu.Lock()
	if e.calls.closed {
		e.calls.mu.Unlock()
		return false
	}
	e.calls.waiting = append(e.calls.waiting, func() { f(); close(done) })
	e.calls.any.Store(true)
	e.calls.mu.Unlock()
	e.driver.Call()
	<-done
	return true
}

// post has the owner of the loop run f, and does not wait. f does not run if the engine ends before.
func (e *runner) post(f func()) {
	e.calls.mu.Lock()
	closed := e.calls.closed
	if !closed {
		e.calls.waiting = append(e.calls.waiting, f)
		e.calls.any.Store(true)
	}
	e.calls.mu.Unlock()
	if !closed {
		e.driver.Call()
	}
}

// callBudget is how many functions an iteration runs: when processes end, there is one for each of their
// objects, and packets arrive meanwhile.
const callBudget = 16

// takeCalls runs queued functions. Work requests that were posted before them come first.
func (e *runner) takeCalls() int {
	if !e.calls.any.Load() {
		return 0
	}
	e.calls.mu.Lock()
	list := e.calls.waiting
	k := min(len(list), callBudget)
	list, e.calls.waiting = list[:k:k], list[k:]
	e.calls.any.Store(len(e.calls.waiting) > 0)
	e.calls.mu.Unlock()
	e.takePosts()
	for _, f := range list {
		f()
	}
	return len(list)
}

// do runs f in the engine's thread.
func (d *Device) do(f func() error) error {
	var err error
	if !d.eng.do(func() { err = f() }) {
		return d.alive()
	}
	return err
}

// alive returns nil, or why the device is of no use any more.
func (d *Device) alive() error {
	if err := d.err.Load(); err != nil {
		return *err
	}
	return nil
}
