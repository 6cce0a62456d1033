// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/spans"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/ring"
)

// The rings of a process are in few files, since each file takes one of the memory mappings and one of the
// descriptors that the kernel allows the server (vm.max_map_count, RLIMIT_NOFILE). The doorbell is at the
// start of the first file. A file is never shared by two processes: each can write to all of it.

// ringFileBytes is the size of a file. Its pages take memory only once they are used. Rings that need more
// have a file of their own.
const ringFileBytes = 16 << 20

// ringFiles are the files of one process. The goroutine of the process uses them.
type ringFiles struct {
	account *limits.Process
	files   []*ringFile
}

// ringFile is a file with rings.
type ringFile struct {
	*shared
	free  spans.List // free parts, bytes
	used  uint64     // end of the part that was ever in use: zeros from here on
	rings int
	cost  []limits.Use
}

// ringMemory is the memory of the rings of one queue. Its size is a multiple of a page.
type ringMemory struct {
	b      []byte
	offset uint32 // offset in the file, bytes
	files  *ringFiles
	file   *ringFile
}

// openRingFiles makes the first file, of which the account was charged when the process connected, and the
// doorbell in it.
func openRingFiles(account *limits.Process) (_ *ringFiles, doorbell []byte, err error) {
	f := &ringFiles{account: account}
	if err := f.grow(ringFileBytes, nil); err != nil {
		return nil, nil, err
	}
	m, err := f.take(ring.DoorbellBytes)
	if err != nil {
		f.close()
		return nil, nil, err
	}
	return f, m.b, nil
}

// fd is the descriptor of the file that has the doorbell.
func (f *ringFiles) fd() int { return f.files[0].fd }

// take returns n bytes of zeros for rings. The error may be one of package limits.
func (f *ringFiles) take(n int) (*ringMemory, error) {
	page := unix.Getpagesize()
	n = (n + page - 1) &^ (page - 1)
	for i := 0; ; i++ {
		if i == len(f.files) {
			cost := []limits.Use{{Kind: limits.Mappings, N: 1}, {Kind: limits.Descriptors, N: 1}}
			if err := f.account.Acquire(cost...); err != nil {
				return nil, err
			}
			if err := f.grow(max(n, ringFileBytes), cost); err != nil {
				f.account.Release(cost...)
				return nil, err
			}
		}
		file := f.files[i]
		s, ok := file.free.Take(uint64(n), uint64(page))
		if !ok {
			continue
		}
		file.rings++
		b := file.b[s.From : s.From+s.N : s.From+s.N]
		if s.From < file.used {
			clear(b[:min(s.N, file.used-s.From)])
		}
		file.used = max(file.used, s.From+s.N)
		return &ringMemory{b: b, offset: uint32(s.From), files: f, file: file}, nil
	}
}

// open makes memory with rings of these shapes one behind the other.
func (f *ringFiles) open(shapes ...ring.Shape) (*ringMemory, []ring.Ring, error) {
	size := 0
	for _, s := range shapes {
		size += s.Bytes()
	}
	m, err := f.take(size)
	if err != nil {
		return nil, nil, overLimit(err)
	}
	var rings []ring.Ring
	at := 0
	for _, s := range shapes {
		r, err := ring.Open(m.b[at:], s)
		if err != nil {
			m.close()
			return nil, nil, err
		}
		rings = append(rings, r)
		at += s.Bytes()
	}
	return m, rings, nil
}

// grow adds a file.
func (f *ringFiles) grow(n int, cost []limits.Use) error {
	m, err := newShared("rings", n, false)
	if err != nil {
		return err
	}
	f.files = append(f.files, &ringFile{shared: m, free: spans.New(0, uint64(len(m.b))), cost: cost})
	return nil
}

// fd is the descriptor of the file, for a message to the process. It stays the server's.
func (m *ringMemory) fd() int { return m.file.fd }

// close gives the memory back. The engine's thread does not use it any more. The process may still have it
// mapped and look for completions there, so it is cleared when it is taken again: in every other pass through
// a ring, zeros are a completion. Nothing here waits for a lock of the file, which the process can hold.
func (m *ringMemory) close() {
	file, f := m.file, m.files
	if file.rings--; file.rings == 0 && file != f.files[0] {
		f.files = slices.DeleteFunc(f.files, func(x *ringFile) bool { return x == file })
		file.close()
		f.account.Release(file.cost...)
		return
	}
	file.free.Give(spans.Span{From: uint64(m.offset), N: uint64(len(m.b))})
}

// close ends all files, when the process has ended.
func (f *ringFiles) close() {
	for _, file := range f.files {
		file.close()
	}
	f.files = nil
}
