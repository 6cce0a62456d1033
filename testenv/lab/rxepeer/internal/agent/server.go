// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"path/filepath"
	"sync"
)

// Server is the guest's side.
type Server struct {
	SetUp func(SetUp) Hello

	mu    sync.Mutex
	last  uint64
	procs map[uint64]*process
}

// Serve answers calls on conn until it closes.
func (s *Server) Serve(conn io.ReadWriteCloser) error {
	r := rpc.NewServer()
	if err := r.RegisterName(Service, &methods{s}); err != nil {
		return err
	}
	r.ServeConn(conn)
	return nil
}

// methods keeps the exported method set to what net/rpc shall serve.
type methods struct{ s *Server }

func (m *methods) SetUp(args SetUp, reply *Hello) error {
	*reply = m.s.SetUp(args)
	return nil
}

func (m *methods) Start(args Start, id *uint64) error {
	p, err := startProcess(args)
	if err != nil {
		return err
	}
	s := m.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.procs == nil {
		s.procs = map[uint64]*process{}
	}
	s.last++
	s.procs[s.last] = p
	*id = s.last
	return nil
}

// Read waits until the command has printed something or ended, for some seconds at
// most, and forgets a command whose end it reports.
func (m *methods) Read(id uint64, reply *Output) error {
	p, err := m.s.process(id)
	if err != nil {
		return err
	}
	*reply = p.read()
	if reply.Done {
		m.s.mu.Lock()
		delete(m.s.procs, id)
		m.s.mu.Unlock()
	}
	return nil
}

func (m *methods) Signal(args Signal, _ *Empty) error {
	p, err := m.s.process(args.ID)
	if err != nil {
		return err
	}
	return p.signal(args.Number)
}

func (s *Server) process(id uint64) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.procs[id]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no running command %d", id)
}

func (m *methods) Put(c Chunk, _ *Empty) error {
	flags := os.O_WRONLY
	if c.Offset == 0 {
		flags |= os.O_CREATE | os.O_TRUNC
		if err := os.MkdirAll(filepath.Dir(c.Path), 0o755); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(c.Path, flags, os.FileMode(c.Mode))
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(c.Data, c.Offset); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// Get reads files of unknown size as well, such as those of /proc and /sys.
func (m *methods) Get(c Chunk, reply *Chunk) error {
	f, err := os.Open(c.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	if c.Len < 0 || c.Len > MaxChunk {
		return fmt.Errorf("chunk of %d bytes, at most %d", c.Len, MaxChunk)
	}
	if c.Offset > 0 {
		if _, err := f.Seek(c.Offset, io.SeekStart); err != nil {
			return err
		}
	}
	buf := make([]byte, c.Len)
	n, err := io.ReadFull(f, buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	*reply = Chunk{Path: c.Path, Offset: c.Offset, Data: buf[:n]}
	return nil
}

// page is the longest file of sysfs.
const page = 4096

// GetAll reads the files of a folder, such as one of /sys, none of which is longer than a page. Its
// folders are left out.
func (m *methods) GetAll(dir string, reply *map[string][]byte) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	all := map[string][]byte{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		var got Chunk
		if err := m.Get(Chunk{Path: filepath.Join(dir, e.Name()), Len: page}, &got); err != nil {
			return err
		}
		all[e.Name()] = got.Data
	}
	*reply = all
	return nil
}
