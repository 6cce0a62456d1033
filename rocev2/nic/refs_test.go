// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Of a CreateQP and a Destroy of its queue at the same time one is refused.
func TestJoinOrEnd(t *testing.T) {
	for range 2000 {
		var u users
		var both sync.WaitGroup
		var joined, ended bool
		both.Go(func() { joined = u.join() })
		both.Go(func() { _, ended = u.end() })
		both.Wait()
		if joined == ended {
			t.Fatalf("joined: %v, ended: %v", joined, ended)
		}
	}
	var u users
	u.join()
	u.join()
	if n, first := u.end(); n != 2 || first || u.ended() {
		t.Errorf("%d users, ended %v", n, first)
	}
	u.leave()
	u.leave()
	for _, want := range []bool{true, false} {
		if n, first := u.end(); n != 0 || first != want || !u.ended() || u.join() {
			t.Errorf("%d users, ended first: %v, want %v", n, first, want)
		}
	}
}

// A refused CreateQP leaves nothing in use, whatever it was refused for.
func TestRefusedHoldsNothing(t *testing.T) {
	e := bench(t)
	d := e.dev
	var err error
	if d.mem, err = mr.New(mr.Config{}); err != nil {
		t.Fatal(err)
	}
	pd, _ := d.AllocPD()
	a, _ := d.CreateCQ(1)
	b, _ := d.CreateCQ(1)
	srq, err := pd.CreateSRQ(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	freed, _ := d.AllocPD()
	if err := freed.Free(); err != nil {
		t.Fatal(err)
	}
	if _, err := freed.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: a, RecvCQ: b, SRQ: srq}); err == nil {
		t.Error("no protection domain, no error")
	}
	for _, end := range []func() error{srq.Destroy, b.Destroy} {
		if err := end(); err != nil {
			t.Error(err)
		}
		if _, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: a, RecvCQ: b, SRQ: srq}); !errors.Is(err, verbs.ErrDestroyed) {
			t.Errorf("%v", err)
		}
	}
	if err := errors.Join(a.Destroy(), pd.Free()); err != nil {
		t.Error(err)
	}
}

// Destroy ends the wait for a completion that cannot come any more.
func TestDestroyEndsWait(t *testing.T) {
	e := bench(t)
	c, err := e.dev.createCQ(1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	e.stop.Store(true) // the engine takes no callers
	errs := make(chan error, 2)
	for _, solicited := range []bool{false, true} {
		go func() { errs <- c.Wait(ctx, solicited) }()
	}
	for c.armed.Load() != armedAny {
		runtime.Gosched()
	}
	if err := c.Destroy(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-errs; !errors.Is(err, verbs.ErrDestroyed) {
			t.Errorf("%v", err)
		}
	}
}
