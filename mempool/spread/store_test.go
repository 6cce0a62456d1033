// SPDX-License-Identifier: Apache-2.0

package spread_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/mempool/directory"
	"github.com/softroce/softroce-xdp/mempool/directory/etcd"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/pages"
	"github.com/softroce/softroce-xdp/mempool/server"
	"github.com/softroce/softroce-xdp/mempool/spread"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	etcdtest "github.com/softroce/softroce-xdp/testenv/lab/require"
)

const (
	page      = 4096
	slabPages = 8
	slabBytes = slabPages * page
)

// pool is a device, and a directory in memory of the servers on it.
type pool struct {
	t   *testing.T
	dev verbs.Device

	mu      sync.Mutex
	servers []directory.Server
	running map[string]*running
	broken  error // error of the directory
}

type running struct {
	*server.Server
	stop func()
}

func newPool(t *testing.T) *pool {
	t.Helper()
	dev := devices.Loopback(t)
	return &pool{t: t, dev: dev, running: map[string]*running{}}
}

// Servers implements directory.Directory.
func (p *pool) Servers(context.Context) ([]directory.Server, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []directory.Server
	for _, s := range p.servers {
		if r := p.running[s.Name]; r != nil {
			s.Free = r.Status().Free
			list = append(list, s)
		}
	}
	return list, p.broken
}

// Add implements directory.Directory.
func (p *pool) Add(context.Context, directory.Server) (directory.Entry, error) {
	return nil, errors.New("servers of a test are listed without it")
}

// serve runs a server of some slabs, at an address, until it is killed or the test ends.
func (p *pool) serve(name, at string, slabs int) directory.Server {
	p.t.Helper()
	s, err := server.Listen(testkit.Context(p.t), p.dev, at, server.Config{
		Bytes: uint64(slabs) * slabBytes, SlabBytes: slabBytes, Lease: lease.Config{Grace: 10 * time.Second},
	})
	testkit.Must(p.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	r := &running{s, sync.OnceFunc(func() { cancel(); <-done })}
	p.t.Cleanup(r.stop)
	entry := directory.Server{Name: name, Address: s.Addr().String(), SlabBytes: slabBytes, Slabs: slabs, Free: slabs}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers = append(p.servers, entry)
	p.running[name] = r
	return entry
}

// list has the directory list the first servers only.
func (p *pool) list(count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers = p.servers[:count]
}

// kill ends a server, and its entry.
func (p *pool) kill(name string) {
	p.mu.Lock()
	r := p.running[name]
	delete(p.running, name)
	p.mu.Unlock()
	r.stop()
}

func (p *pool) open(d directory.Directory, name string, mirror bool, demandPages int) *user {
	p.t.Helper()
	s, err := spread.Open(testkit.Context(p.t), p.dev, d, spread.Config{
		Name: name, Period: 50 * time.Millisecond, Demand: uint64(demandPages) * page, Mirror: mirror,
		Report: func(server string, err error) { p.t.Logf("%s, server %q: %v", name, server, err) },
	})
	testkit.Must(p.t, err)
	p.t.Cleanup(func() { _ = s.Close() })
	data, err := s.AllocBuffers(page)
	testkit.Must(p.t, err)
	return &user{p.t, s, data, map[int64][32]byte{}}
}

// user accesses pages one by one, and knows the hash of each.
type user struct {
	t *testing.T
	*spread.Store
	data   []byte
	hashes map[int64][32]byte
}

func (u *user) access(start func([]vmm.Request), number int64) error {
	done := make(chan error, 1)
	start([]vmm.Request{{Page: number, Data: u.data, Done: func(err error) { done <- err }}})
	return testkit.Receive(u.t, fmt.Sprintf("an answer for page %d", number), done)
}

func (u *user) write(number int64, version uint64) error {
	for i := 0; i < page; i += 16 {
		binary.BigEndian.PutUint64(u.data[i:], uint64(number))
		binary.BigEndian.PutUint64(u.data[i+8:], version)
	}
	hash := sha256.Sum256(u.data)
	err := u.access(u.WritePages, number)
	if err == nil {
		u.hashes[number] = hash
	}
	return err
}

// writeAll writes pages, each as soon as there is room for it.
func (u *user) writeAll(count int, version uint64) {
	u.t.Helper()
	ctx := testkit.Context(u.t)
	for number := range int64(count) {
		for err := pages.ErrNoRoom; err != nil; {
			testkit.Must(u.t, ctx.Err())
			if err = u.write(number, version); err != nil && !errors.Is(err, pages.ErrNoRoom) {
				u.t.Fatal(err)
			}
		}
	}
}

// read reads a page. Its content is that of the last WRITE, or it is an error.
func (u *user) read(number int64) error {
	u.t.Helper()
	clear(u.data)
	err := u.access(u.ReadPages, number)
	if err == nil && sha256.Sum256(u.data) != u.hashes[number] {
		u.t.Fatalf("page %d is not what was written: it begins with %x", number, u.data[:16])
	}
	return err
}

func (u *user) readAll() (errs []error) {
	u.t.Helper()
	for number := range u.hashes {
		if err := u.read(number); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// wait waits until the state of the store is as wanted.
func (u *user) wait(what string, ok func(spread.Status) bool) {
	u.t.Helper()
	testkit.Eventually(u.t, what, func() error {
		if s := u.Status(); !ok(s) {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// S4: a node has pages on several servers, more than one of them has room for.
func TestSeveralServers(t *testing.T) {
	p := newPool(t)
	p.serve("s1", "127.0.0.1:0", 4)
	p.serve("s2", "127.0.0.1:0", 4)
	u := p.open(p, "web1", false, 0)
	u.writeAll(7*slabPages, 1)
	testkit.Must(t, errors.Join(u.readAll()...))
	for _, s := range u.Status().Servers {
		if !s.Connected || s.Stored == 0 {
			t.Errorf("%+v", s)
		}
	}
	testkit.Must(t, u.Leave())
	for name, r := range p.running {
		if n := r.Status().Nodes; len(n) > 0 {
			t.Errorf("%s: %+v after Leave", name, n)
		}
	}
	if err := u.read(1); err == nil {
		t.Error("a READ after Leave succeeds")
	}
}

// One of two servers is killed, without a mirror: its pages are errors, never zeroes, and can be written again.
func TestServerKilled(t *testing.T) {
	p := newPool(t)
	p.serve("s1", "127.0.0.1:0", 8)
	p.serve("s2", "127.0.0.1:0", 8)
	u := p.open(p, "web1", false, 8*slabPages)
	u.wait("room at both", func(s spread.Status) bool { return s.Servers[0].Room > 0 && s.Servers[1].Room > 0 })
	const count = 6 * slabPages
	u.writeAll(count, 1)
	before := u.Status()
	p.kill("s2")
	u.wait("end of s2", func(s spread.Status) bool { return len(s.Servers) == 1 || !s.Servers[1].Connected })
	errs := u.readAll()
	for _, err := range errs {
		if !errors.Is(err, pages.ErrLost) {
			t.Error(err)
		}
	}
	if len(errs) != before.Servers[1].Stored || len(errs) == 0 || len(errs) == count {
		t.Errorf("%d pages are lost; before: %+v", len(errs), before)
	}
	u.writeAll(count, 2)
	if errs := u.readAll(); errs != nil {
		t.Error(errs)
	}
}

// With a mirror, no page is lost when one of two servers is killed while pages are written and read; a third
// server gets the second copies, and then the first one of all can be killed as well.
func TestMirrorKilled(t *testing.T) {
	p := newPool(t)
	p.serve("s1", "127.0.0.1:0", 8)
	p.serve("s2", "127.0.0.1:0", 8)
	u := p.open(p, "web1", true, 5*slabPages)
	const count = 5 * slabPages
	u.writeAll(count, 1)
	for _, s := range u.Status().Servers {
		if s.Stored != count {
			t.Fatalf("%+v: want each page at both", s)
		}
	}
	killed := make(chan struct{})
	go func() { defer close(killed); p.kill("s1") }()
	for round, dead := uint64(2), false; !dead; round++ {
		select {
		case <-killed:
			dead = true
		default:
		}
		u.writeAll(count, round)
		testkit.Must(t, errors.Join(u.readAll()...))
	}
	u.wait("end of s1", func(s spread.Status) bool { return len(s.Servers) == 1 })
	if s := u.Status(); s.Single != count || s.Counts.Lost != 0 {
		t.Errorf("%+v: want %d pages with one copy", s, count)
	}
	p.serve("s3", "127.0.0.1:0", 8)
	u.wait("second copies", func(s spread.Status) bool { return s.Single == 0 })
	p.kill("s2")
	if errs := u.readAll(); errs != nil {
		t.Errorf("with the copies of the third server: %v", errs)
	}
	p.kill("s3")
	u.wait("end of all", func(s spread.Status) bool { return len(s.Servers) == 0 })
	for _, err := range u.readAll() {
		if !errors.Is(err, pages.ErrLost) {
			t.Error(err)
		}
	}
	if n := len(u.readAll()); n != count {
		t.Errorf("%d of %d pages are errors, and no server is left", n, count)
	}
	if err := u.write(1, 9); !errors.Is(err, spread.ErrNoServer) {
		t.Errorf("a WRITE without a server: %v", err)
	}
}

// A server that comes back at its address is joined again.
func TestServerReturns(t *testing.T) {
	p := newPool(t)
	p.serve("s1", "127.0.0.1:0", 4)
	at := p.serve("s2", "127.0.0.1:7199", 4).Address
	u := p.open(p, "web1", true, 2*slabPages)
	u.writeAll(2*slabPages, 1)
	p.kill("s2")
	u.wait("end of s2", func(s spread.Status) bool { return !s.Servers[len(s.Servers)-1].Connected || len(s.Servers) == 1 })
	p.mu.Lock()
	p.servers = p.servers[:1]
	p.mu.Unlock()
	p.serve("s2", at, 4)
	u.wait("second copies", func(s spread.Status) bool { return s.Single == 0 && len(s.Servers) == 2 && s.Servers[1].Connected })
	p.kill("s1")
	if errs := u.readAll(); errs != nil {
		t.Error(errs)
	}
}

// The entry of a server expires, and then the connection to it ends. When the server is listed again, it takes the
// node back at once: the node shows the ticket of the connection before.
func TestEntryReturns(t *testing.T) {
	p := newPool(t)
	p.serve("s1", "127.0.0.1:0", 4)
	p.serve("s2", "127.0.0.1:0", 4)
	reports := make(chan error, 100)
	s, err := spread.Open(testkit.Context(t), p.dev, p, spread.Config{
		Name: "web1", Period: 50 * time.Millisecond, Demand: slabBytes, Mirror: true,
		Report: func(server string, err error) {
			if server == "s2" {
				reports <- err
			}
		},
	})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	testkit.Must(t, <-reports)
	until := func(ok func() bool) {
		for ctx := testkit.Context(t); !ok(); time.Sleep(5 * time.Millisecond) {
			testkit.Must(t, ctx.Err())
		}
	}
	p.list(1)
	until(func() bool { return s.Listed() == 1 })
	s.Cut("s2", errors.New("cut by the test"))
	if err := <-reports; err == nil {
		t.Fatal("the end of the connection is not told")
	}
	until(func() bool { return !s.Follows("s2") })
	p.list(2)
	testkit.Must(t, <-reports)
}

// Two nodes race for the last slab: one of them has it, and the other one is told that there is no room.
func TestRaceForLastSlab(t *testing.T) {
	p := newPool(t)
	p.serve("s1", "127.0.0.1:0", 1)
	var users []*user
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, name := range []string{"web1", "web2"} {
		all.Go(func() {
			s, err := spread.Open(testkit.Context(t), p.dev, p, spread.Config{Name: name, Period: 50 * time.Millisecond, Demand: slabBytes})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = s.Close() })
			data, err := s.AllocBuffers(page)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			users = append(users, &user{t, s, data, map[int64][32]byte{}})
			mu.Unlock()
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	// The server may give the slab to the other node in a later period: both are never writing to it.
	wrote := 0
	for round := range uint64(20) {
		for _, u := range users {
			err := u.write(int64(round%slabPages), round)
			if err == nil {
				wrote++
			} else if !errors.Is(err, pages.ErrNoRoom) && !errors.Is(err, pages.ErrLost) {
				t.Error(err)
			}
			for _, u := range users { // each page is what its node wrote, or an error
				for _, err := range u.readAll() {
					if !errors.Is(err, pages.ErrLost) {
						t.Error(err)
					}
				}
			}
		}
	}
	if n := p.running["s1"].Status(); wrote == 0 || n.Free+n.Closing > 1 {
		t.Errorf("%d WRITEs; %+v", wrote, n)
	}
}

// etcd is killed: a node goes on with the servers that it has, and a node that joins gets a clear error. When
// etcd is back, new servers are found.
func TestEtcdKilled(t *testing.T) {
	e := etcdtest.Start(t)
	d, err := etcd.Open(e.URL)
	testkit.Must(t, err)
	p := newPool(t)
	ctx, cancel := context.WithCancel(context.Background())
	announce := func(s directory.Server) {
		var wait func()
		testkit.Eventually(t, "etcd has the server", func() (err error) { // it may be late with an answer
			wait, err = directory.Announce(ctx, d, func() directory.Server { return s }, func(error) {})
			return err
		})
		t.Cleanup(func() { cancel(); wait() })
	}
	defer cancel()
	announce(p.serve("s1", "127.0.0.1:0", 8))
	announce(p.serve("s2", "127.0.0.1:0", 8))
	u := p.open(d, "web1", true, 4*slabPages)
	u.writeAll(3*slabPages, 1)

	e.Kill()
	u.wait("notice that the directory is gone", func(s spread.Status) bool { return s.Directory != "" })
	u.writeAll(4*slabPages, 2)
	if errs := u.readAll(); errs != nil {
		t.Error(errs)
	}
	p.kill("s1")
	if errs := u.readAll(); errs != nil {
		t.Errorf("without etcd, and with one of two servers: %v", errs)
	}
	_, err = spread.Open(testkit.Context(t), p.dev, d, spread.Config{Name: "web2", Period: time.Second})
	if !errors.Is(err, directory.ErrUnreachable) || !strings.Contains(err.Error(), e.URL) {
		t.Errorf("a node that joins: %v", err)
	}

	e.Run()
	announce(p.serve("s3", "127.0.0.1:0", 8))
	u.wait("second copies", func(s spread.Status) bool { return s.Single == 0 && s.Directory == "" })
	p.kill("s2")
	if errs := u.readAll(); errs != nil {
		t.Error(errs)
	}
}

// What cannot work is an error that says what to do.
func TestOpen(t *testing.T) {
	p := newPool(t)
	c := spread.Config{Name: "web1", Period: time.Second}
	if _, err := spread.Open(testkit.Context(t), p.dev, p, c); !errors.Is(err, spread.ErrEmpty) {
		t.Errorf("no servers: %v", err)
	}
	p.serve("s1", "127.0.0.1:0", 1)
	c.Mirror = true
	if _, err := spread.Open(testkit.Context(t), p.dev, p, c); !errors.Is(err, spread.ErrMirror) || !strings.Contains(err.Error(), "s1 alone") {
		t.Errorf("a mirror with one server: %v", err)
	}
	c.Mirror = false
	u := p.open(p, "web1", false, 1)
	var rejected *rdma.RejectedError
	if _, err := spread.Open(testkit.Context(t), p.dev, p, c); !errors.As(err, &rejected) || !strings.Contains(err.Error(), "another node has this name") {
		t.Errorf("a name that is taken: %v", err)
	}
	done := make(chan error, 1)
	u.WritePages([]vmm.Request{{Data: bytes.Repeat([]byte{1}, 100), Done: func(err error) { done <- err }}})
	if err := <-done; err == nil {
		t.Error("a part of a page is accepted")
	}
}
