// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"errors"

	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// more is how many buffers of one page are made at a time.
const more = 64

// buffers is memory that all connections of a store use. The store is locked.
type buffers struct {
	dev       verbs.Device
	pageBytes int
	memory    [][]byte
	spare     [][]byte // pages
}

// AllocBuffers returns memory for vmm.Request.Data, until Close. It begins at a multiple of node.PageBytes.
func (s *Store) AllocBuffers(bytes int) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alloc(bytes)
}

func (s *Store) alloc(bytes int) ([]byte, error) {
	b, err := rdma.Alloc(s.dev, bytes+node.PageBytes)
	if err != nil {
		return nil, err
	}
	for _, l := range s.links {
		if shareErr := l.node.Share(b); shareErr != nil {
			err = errors.Join(err, shareErr)
			l.stop(shareErr) // it joins again, with this memory
		}
	}
	s.memory = append(s.memory, b)
	return aligned(b, bytes), nil
}

// share gives a connection the memory of the others.
func (s *Store) share(n *node.Node) error {
	for _, b := range s.memory {
		if err := n.Share(b); err != nil {
			return err
		}
	}
	return nil
}

// take returns a buffer of a page.
func (s *Store) take() ([]byte, error) {
	if len(s.spare) == 0 {
		b, err := s.alloc(more * s.pageBytes)
		if err != nil {
			return nil, err
		}
		for ; len(b) > 0; b = b[s.pageBytes:] {
			s.spare = append(s.spare, b[:s.pageBytes:s.pageBytes])
		}
	}
	last := len(s.spare) - 1
	b := s.spare[last]
	s.spare = s.spare[:last]
	return b, nil
}

// put gives a buffer back; nil is none.
func (s *Store) put(b []byte) {
	if b != nil {
		s.spare = append(s.spare, b)
	}
}

// free frees all memory. All connections are closed.
func (s *Store) free() (err error) {
	for _, b := range s.memory {
		err = errors.Join(err, rdma.Free(s.dev, b))
	}
	s.memory, s.spare = nil, nil
	return err
}
