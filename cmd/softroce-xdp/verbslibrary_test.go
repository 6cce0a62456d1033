// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Only root may be able to change a library; the sticky bit protects the entries of directories above that of the library.
func TestOthersChange(t *testing.T) {
	for _, c := range []struct {
		mode     uint32
		uid, gid uint32
		above    bool
		want     bool
	}{
		{mode: unix.S_IFREG | 0o755},
		{mode: unix.S_IFREG | 0o775},
		{mode: unix.S_IFREG | 0o775, gid: 5, want: true},
		{mode: unix.S_IFREG | 0o755, uid: 5, want: true},
		{mode: unix.S_IFREG | 0o1666, want: true},
		{mode: unix.S_IFDIR | 0o1777, want: true},
		{mode: unix.S_IFDIR | 0o1777, above: true},
		{mode: unix.S_IFDIR | 0o1775, gid: 5, above: true},
		{mode: unix.S_IFDIR | 0o777, above: true, want: true},
		{mode: unix.S_IFDIR | 0o1777, uid: 5, above: true, want: true},
	} {
		if got := othersChange(&unix.Stat_t{Mode: c.mode, Uid: c.uid, Gid: c.gid}, c.above); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}
