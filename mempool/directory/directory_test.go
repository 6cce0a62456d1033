// SPDX-License-Identifier: Apache-2.0

package directory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/mempool/directory"
)

// memory is a directory in memory, whose entries a test ends.
type memory struct {
	mu      sync.Mutex
	current *entry
	added   int
}

type entry struct {
	m *memory
	s directory.Server
}

func (m *memory) Servers(context.Context) ([]directory.Server, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == nil {
		return nil, nil
	}
	return []directory.Server{m.current.s}, nil
}

func (m *memory) Add(_ context.Context, s directory.Server) (directory.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current = &entry{m, s}
	m.added++
	return m.current, nil
}

// expire ends the entry.
func (m *memory) expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current = nil
}

func (e *entry) Renew(context.Context) error {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	if e.m.current != e {
		return directory.ErrExpired
	}
	return nil
}

func (e *entry) Replace(ctx context.Context, s directory.Server) error {
	err := e.Renew(ctx)
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	if err == nil {
		e.s = s
	}
	return err
}

func (e *entry) Close(context.Context) error {
	e.m.expire()
	return nil
}

// An entry follows what the server tells, is made again when it has expired, and ends with the server.
func TestAnnounce(t *testing.T) {
	m := &memory{}
	var mu sync.Mutex
	free := 8
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	wait, err := directory.Announce(ctx, m, func() directory.Server {
		mu.Lock()
		defer mu.Unlock()
		return directory.Server{Name: "s1", Address: "10.0.0.1:7178", SlabBytes: 4096, Slabs: 8, Free: free}
	}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	listed := func(want int) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("%d free slabs", want), func() error {
			if list, _ := m.Servers(ctx); len(list) != 1 || list[0].Free != want {
				return fmt.Errorf("%+v", list)
			}
			return nil
		})
	}
	listed(8)
	mu.Lock()
	free = 3
	mu.Unlock()
	listed(3)
	if m.expire(); m.added != 1 {
		t.Errorf("%d entries were made", m.added)
	}
	listed(3)
	cancel()
	wait()
	if list, _ := m.Servers(context.Background()); len(list) > 0 {
		t.Errorf("%v are listed after the end", list)
	}
}

// An entry that cannot be right is refused.
func TestCheck(t *testing.T) {
	good := directory.Server{Name: "s1", Address: "h:1", SlabBytes: 4096, Slabs: 2, Free: 1}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*directory.Server){
		func(s *directory.Server) { s.Name = "" }, func(s *directory.Server) { s.Name = "a b" },
		func(s *directory.Server) { s.Name = strings.Repeat("a", directory.MaxName+1) }, func(s *directory.Server) { s.Address = "h" },
		func(s *directory.Server) { s.SlabBytes = 0 }, func(s *directory.Server) { s.SlabBytes = 1 << 32 },
		func(s *directory.Server) { s.Free = 3 }, func(s *directory.Server) { s.Free = -1 }, func(s *directory.Server) { s.Slabs = -1 },
	} {
		bad := good
		if change(&bad); bad.Check() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// A directory of one server has that one, and no room for others.
func TestOne(t *testing.T) {
	d := directory.One{Name: "s1", Address: "h:1", SlabBytes: 4096, Slabs: 2, Free: 2}
	list, err := d.Servers(context.Background())
	if err != nil || len(list) != 1 || list[0].FreeBytes() != 8192 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := d.Add(context.Background(), list[0]); err == nil || errors.Is(err, directory.ErrTaken) {
		t.Errorf("Add: %v", err)
	}
}
