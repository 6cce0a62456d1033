// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/mr/clientmem"
)

// An access to the memory of a process that waits for a FUSE file system does not end with the process. The
// server then ends the file systems that the process has mapped: first those of its own user, then those of other
// users with requests that have no answer, for which the engine's thread may wait as well. If no mapping names the
// file system, as with one below overlayfs, all of the user are ended. Those of root stay.

const (
	// mapsPatience is how long the server waits for the mappings of a process: another thread of the process
	// may wait for the lock of the address space.
	mapsPatience = time.Second
	// abortLooks is how often the server looks whether an access ends by itself, or after the end of its file system, and abortLook
	// the time between.
	abortLooks = 50
	abortLook  = 10 * time.Millisecond
)

// endFileSystems ends file systems until the access in progress ends. It is called in a goroutine of its own.
func (c *session) endFileSystems(m *processMemory) {
	mapped, err := c.mappedDevices(m)
	if err != nil {
		mapped = nil
	}
	for _, ends := range []func(f *clientmem.FileSystem) bool{
		func(f *clientmem.FileSystem) bool { return mapped[f.Device] && f.User == c.process.uid },
		func(f *clientmem.FileSystem) bool { return mapped[f.Device] && f.User != c.process.uid && f.Waiting() },
		func(f *clientmem.FileSystem) bool { return f.User == c.process.uid },
	} {
		if m.progresses() {
			break
		}
		if err = abort(ends); err != nil {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m.note(c, err)
	m.ending = false // guard begins again if the access goes on
}

// abort ends the file systems of a kind, but none of root.
func abort(ends func(f *clientmem.FileSystem) bool) error {
	all, err := clientmem.FileSystems(clientmem.FUSEControl)
	for i := range all {
		f := &all[i]
		if f.User == 0 || !ends(f) {
			continue
		}
		err = errors.Join(err, f.Abort())
	}
	return err
}

// mappedDevices returns what the process has mapped. It gives up after mapsPatience.
func (c *session) mappedDevices(m *processMemory) (map[uint64]bool, error) {
	c.mu.Lock()
	if c.memory == nil {
		c.mu.Unlock()
		return nil, clientmem.ErrEnded
	}
	if m.reading {
		c.mu.Unlock()
		return nil, errors.New("the mappings of the process are not known yet")
	}
	maps, err := m.Maps()
	m.reading = err == nil
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	type result struct {
		devices map[uint64]bool
		err     error
	}
	got := make(chan result, 1)
	go func() {
		defer maps.Close()
		devices, err := maps.Devices()
		c.mu.Lock()
		m.reading = false
		c.mu.Unlock()
		got <- result{devices, err}
	}()
	select {
	case r := <-got:
		return r.devices, r.err
	case <-time.After(mapsPatience):
		return nil, fmt.Errorf("the mappings of the process are not known after %v", mapsPatience)
	}
}

// progresses reports whether the access that is in progress ends within abortLooks. They are counted: a machine that stood still
// for that time has not looked.
func (m *processMemory) progresses() bool {
	first := m.Progress()
	for range abortLooks {
		if now := m.Progress(); now.Begun == now.Ended || now.Ended != first.Ended {
			return true
		}
		time.Sleep(abortLook)
	}
	return false
}
