// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"sync"
	"sync/atomic"
	"testing"
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

// A reader of the word has one of the two addresses, never a mixture.
func TestMACIsNeverTorn(t *testing.T) {
	c := new(bpf.Config)
	one, two := [6]byte{1, 1, 1, 1, 1, 1}, [6]byte{2, 2, 2, 2, 2, 2}
	bpf.SetMAC(c, one)
	word := (*uint64)(unsafe.Pointer(&c.Mac))
	var writes atomic.Uint64
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			bpf.SetMAC(c, two)
			bpf.SetMAC(c, one)
			writes.Add(1)
		}
	})
	defer wg.Wait()
	defer done.Store(true)
	for i := 0; i < 1_000_000 || writes.Load() < 1000; i++ {
		w := atomic.LoadUint64(word)
		if mac := *(*[6]byte)(unsafe.Pointer(&w)); mac != one && mac != two {
			t.Fatalf("read %x", mac)
		}
	}
}
