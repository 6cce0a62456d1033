// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/softroce/softroce-xdp/bpf"
)

// Address and WindowOff are one word, as SetMAC and lib/parse.h suppose.
func TestMACWord(t *testing.T) {
	var c bpf.Config
	mac, off := unsafe.Offsetof(c.Mac), unsafe.Offsetof(c.WindowOff)
	if mac%8 != 0 || off != mac+6 || unsafe.Sizeof(c)%8 != 0 {
		t.Errorf("Mac is at %d, WindowOff at %d", mac, off)
	}
	c.WindowOff, c.HelloByAgent, c.Secret[0] = 0x1234, 5, 6
	bpf.SetMAC(&c, usMAC)
	if c.Mac != usMAC || c.WindowOff != 0x1234 || c.HelloByAgent != 5 || c.Secret[0] != 6 {
		t.Errorf("%+v", c)
	}
}

// The data plane never sees a part of a new address, and what another process writes to WindowOff meanwhile stays.
func TestMACAtOnce(t *testing.T) {
	a, b := [6]byte{2, 0x11, 0x11, 0x11, 0x11, 0x11}, [6]byte{6, 0x22, 0x22, 0x22, 0x22, 0x22}
	var c bpf.Config
	bpf.SetMAC(&c, a)
	word := (*atomic.Uint64)(unsafe.Pointer(&c.Mac))
	var ends atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; !ends.Load(); i++ {
			bpf.SetMAC(&c, [][6]byte{b, a}[i%2])
		}
	}()
	defer func() { ends.Store(true); <-done }()
	for off := range uint64(1000) {
		for range 10 {
			w := word.Load()
			mac := [6]byte{byte(w), byte(w >> 8), byte(w >> 16), byte(w >> 24), byte(w >> 32), byte(w >> 40)}
			if mac != a && mac != b || w>>48 != off {
				t.Fatalf("MAC %x, WindowOff %d, want %d", mac, w>>48, off)
			}
		}
		for old := word.Load(); !word.CompareAndSwap(old, old<<16>>16|(off+1)<<48); old = word.Load() {
		}
		time.Sleep(10 * time.Microsecond) // the other goes on at any place
	}
}
