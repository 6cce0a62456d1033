// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"errors"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A table with chosen keys takes what the caller names, and nothing twice.
func TestChosenKeys(t *testing.T) {
	m, err := New(Config{ChosenKeys: true})
	if err != nil {
		t.Fatal(err)
	}
	m.OpenPD(7)
	m.OpenPD(7)
	buf := make([]byte, 64)
	spec := Spec{PD: 7, Host: buf, Access: verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessBindWindows, Key: 5<<16 | 0x1234}
	r, err := m.Register(spec)
	if err != nil || r.LKey() != spec.Key || r.RKey() != spec.Key {
		t.Fatalf("%v, key %#x", err, r.LKey())
	}
	if f := m.CheckRemote(7, 1, spec.Key, r.VA(), 64, verbs.AccessRemoteRead); f != mem.FaultNone {
		t.Error(f)
	}
	for what, key := range map[string]uint32{"taken slot": 5<<16 | 0x7777, "no key": 0, "consumer's bits only": 0xff} {
		spec.Key = key
		if _, err := m.Register(spec); !errors.Is(err, verbs.ErrNoKey) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := m.AllocWindowKey(7, key); !errors.Is(err, verbs.ErrNoKey) {
			t.Errorf("window, %s: %v", what, err)
		}
	}
	if _, err := m.AllocWindow(7); !errors.Is(err, verbs.ErrNoKey) {
		t.Errorf("window: %v", err)
	}
	if err := r.Reregister(spec); !errors.Is(err, verbs.ErrNoKey) {
		t.Errorf("reregister: %v", err)
	}
	w, err := m.AllocWindowKey(7, 6<<16|0x100)
	if err != nil {
		t.Fatal(err)
	}
	b := verbs.Bind{Window: w.RKey(), Region: r.LKey(), Addr: r.VA(), Length: 8, Access: verbs.AccessRemoteRead, NewKey: 9}
	if f := m.BindWindow(7, 1, b); f != mem.FaultNone || w.RKey() != 6<<16|0x109 {
		t.Errorf("%v, key %#x", f, w.RKey())
	}
	if err := r.Deregister(); !errors.Is(err, verbs.ErrBusy) {
		t.Error(err)
	}
	if err := errors.Join(w.Free(), r.Deregister()); err != nil {
		t.Fatal(err)
	}
	// The slot is free again, and what failed left no hold on the domain.
	spec.Key = 5<<16 | 0x7777
	if r, err = m.Register(spec); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Deregister(), m.FreePD(7)); err != nil {
		t.Error(err)
	}
}

func TestDrawnKeysAreNotChosen(t *testing.T) {
	m, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Register(Spec{PD: m.AllocPD(), Host: make([]byte, 8), Key: 1 << 16}); !errors.Is(err, verbs.ErrNoKey) {
		t.Error(err)
	}
}
