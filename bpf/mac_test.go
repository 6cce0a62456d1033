// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
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
