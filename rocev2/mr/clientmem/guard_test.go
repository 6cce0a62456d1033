// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"errors"
	"math/rand/v2"
	"testing"
)

func TestProgress(t *testing.T) {
	a := startApplication(t)
	addr := a.mapped("plain", 1)
	first := a.Progress()
	if a.Progress().Stalled(first) {
		t.Error("stalled without an access")
	}
	if err := a.WriteAt([]byte{1}, addr); err != nil {
		t.Fatal(err)
	}
	if second := a.Progress(); second.Stalled(first) || second != (Progress{first.Begun + 1, first.Ended + 1}) {
		t.Error(first, second)
	}
	inside := Progress{5, 4}
	for now, want := range map[Progress]bool{{5, 4}: true, {5, 5}: false, {6, 5}: false} {
		if now.Stalled(inside) != want {
			t.Errorf("%v after %v: %v", now, inside, !want)
		}
	}
}

// A guard acts on half a second without progress and on frequent shorter stalls, and not on
// rare ones, on a busy process or on an idle one.
func TestGuard(t *testing.T) {
	process := func() bool { return true }
	random := rand.New(rand.NewPCG(1, 2))
	// run returns after how many samples the guard acts, of which a share are stalled.
	run := func(share float64, samples int) int {
		var g Guard
		var p Progress
		for i := range samples {
			p.Begun++
			if random.Float64() >= share { // what was in progress has ended, and another one has begun
				p.Ended = p.Begun - 1
			}
			if g.Sample(p, process) {
				return i + 1
			}
		}
		return 0
	}
	if got := run(1, 100); got < 8 || got > 12 {
		t.Errorf("no progress: after %d samples, want about 10", got)
	}
	if got := run(0, 10_000); got != 0 {
		t.Errorf("busy: after %d samples", got)
	}
	if got := run(0.03, 10_000); got != 0 {
		t.Errorf("3 %% stalled: after %d samples", got)
	}
	if got := run(0.3, 10_000); got == 0 || got > 200 {
		t.Errorf("30 %% stalled: after %d samples", got)
	}
	var hungry Guard
	for range 1000 {
		if hungry.Sample(Progress{2, 1}, func() bool { return false }) {
			t.Fatal("a server that waits for a processor")
		}
	}
	var idle Guard
	for range 1000 {
		if idle.Sample(Progress{7, 7}, process) {
			t.Fatal("idle")
		}
	}
}

// After Revoke no access is made; the reason of the end stays.
func TestRevoke(t *testing.T) {
	a := startApplication(t)
	addr := a.mapped("plain", 1)
	a.Revoke()
	before := a.Progress()
	for _, err := range []error{a.WriteAt([]byte{9}, addr), a.ReadAt([]byte{0}, addr), a.Check(addr, 1, 0)} {
		if !errors.Is(err, ErrRevoked) {
			t.Error(err)
		}
	}
	if _, err := a.FetchAdd(addr, 1); !errors.Is(err, ErrRevoked) {
		t.Error(err)
	}
	if a.Progress() != before || a.Ended() || a.sees(addr, 1)[0] != 1 {
		t.Error("accessed")
	}
	b := startApplication(t)
	addr = b.mapped("plain", 1)
	b.kill()
	_ = b.ReadAt([]byte{0}, addr)
	b.Revoke()
	if !b.Ended() {
		t.Error("the reason has changed")
	}
}
