// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/server"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	page = 4096
	slab = 4 * page
)

func open(t *testing.T) verbs.Device {
	t.Helper()
	dev := devices.Loopback(t)
	return dev
}

// pool is a server that runs until stop, or until the test ends.
type pool struct {
	*server.Server
	at   string
	stop func()
}

func serve(t *testing.T, dev verbs.Device, c server.Config) *pool {
	t.Helper()
	c.SlabBytes = slab
	s := testkit.Must1(server.Listen(testkit.Context(t), dev, "127.0.0.1:0", c))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	p := &pool{Server: s, at: s.Addr().String()}
	stopped := false
	p.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := testkit.Receive(t, "Serve ends", done); !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
	}
	t.Cleanup(p.stop)
	return p
}

func join(t *testing.T, dev verbs.Device, p *pool, name string, slabs int) *node.Node {
	t.Helper()
	return joinAs(t, dev, p, node.Config{Name: name, Period: 50 * time.Millisecond, Demand: uint64(slabs) * slab})
}

func joinAs(t *testing.T, dev verbs.Device, p *pool, c node.Config) *node.Node {
	t.Helper()
	n := testkit.Must1(node.Join(testkit.Context(t), dev, p.at, c))(t)
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// waitLease waits until a lease is as wanted.
func waitLease(t *testing.T, n *node.Node, what string, ok func(node.Lease) bool) node.Lease {
	t.Helper()
	ctx := testkit.Context(t)
	for {
		if l := n.Lease(); ok(l) {
			return l
		}
		select {
		case <-n.Changed():
		case <-n.Done():
			t.Fatalf("waiting for %s: %v", what, n.Err())
		case <-ctx.Done():
			t.Fatalf("no %s: %+v", what, n.Lease())
		}
	}
}

// waitStatus waits until the state of the pool is as wanted.
func waitStatus(t *testing.T, p *pool, what string, ok func(lease.Status) bool) {
	t.Helper()
	testkit.Eventually(t, what, func() error {
		if s := p.Status(); !ok(s) {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

func fill(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

// S4.3: the lease has the address and key of the space; a page is written and read there.
func TestReadWrite(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 8 * slab})
	n := join(t, dev, p, "a", 3)
	l := n.Lease()
	if len(l.Slabs) != 3 || l.Bytes() != 3*slab {
		t.Fatalf("lease %+v", l)
	}
	ctx := testkit.Context(t)
	for i, s := range l.Slabs {
		for at := uint64(0); at < slab; at += page {
			testkit.Must(t, n.Write(ctx, s.Number, at, fill(byte(16*i)+byte(at/page)+1, page)))
		}
	}
	got := make([]byte, page)
	for i, s := range l.Slabs {
		for at := uint64(0); at < slab; at += page {
			testkit.Must(t, n.Read(ctx, s.Number, at, got))
			if want := fill(byte(16*i)+byte(at/page)+1, page); !bytes.Equal(got, want) {
				t.Fatalf("slab %d at %d: %d, want %d", s.Number, at, got[0], want[0])
			}
		}
	}
	if err := n.Read(ctx, 7, 0, got); !errors.Is(err, node.ErrNotLeased) {
		t.Errorf("a slab that is not leased: %v", err)
	}
	if err := n.Read(ctx, l.Slabs[0].Number, slab-page+1, got); !errors.Is(err, node.ErrRange) {
		t.Errorf("beyond the end: %v", err)
	}
	s := testkit.Must1(node.Status(ctx, dev, p.at))(t)
	if s.Slabs != 8 || len(s.Nodes) != 1 || s.Nodes[0].Name != "a" || s.Nodes[0].Slabs != 3 {
		t.Errorf("status %+v", s)
	}
	testkit.Must(t, n.Leave(ctx))
	waitStatus(t, p, "free slab after Leave", func(s lease.Status) bool { return s.Free == 8 && len(s.Nodes) == 0 })
	if err := n.Read(ctx, l.Slabs[0].Number, 0, got); err == nil {
		t.Error("a READ after Leave succeeds")
	}
}

// Operations without a copy complete in any number, and their pages are counted as used.
func TestStart(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 4 * slab})
	n := joinAs(t, dev, p, node.Config{Name: "a", Period: time.Hour, Demand: 4 * slab, Depth: 4})
	b := testkit.Must1(n.Alloc(32 * page))(t)
	out, in := b[:16*page], b[16*page:]
	for i := range out {
		out[i] = byte(i / page * 3)
	}
	done := make(chan error, 100)
	ctx := testkit.Context(t)
	var writes, reads []node.Op
	for i := range 16 {
		number := n.Lease().Slabs[i/4].Number
		at := uint64(i % 4 * page)
		writes = append(writes, node.Op{Write: true, Slab: number, Offset: at, Data: out[i*page : (i+1)*page], Done: func(err error) { done <- err }})
		reads = append(reads, node.Op{Slab: number, Offset: at, Data: in[i*page : (i+1)*page], Done: func(err error) { done <- err }})
	}
	n.Start(ctx, writes...)
	n.Start(ctx, reads...)
	for range 32 {
		testkit.Must(t, <-done)
	}
	if !bytes.Equal(in, out) {
		t.Error("other data was read")
	}
	n.Start(ctx, node.Op{Slab: 99, Data: in[:page], Done: func(err error) { done <- err }})
	if err := <-done; !errors.Is(err, node.ErrNotLeased) {
		t.Error(err)
	}
	n.Start(ctx, node.Op{Slab: n.Lease().Slabs[0].Number, Data: make([]byte, page), Done: func(err error) { done <- err }})
	if err := <-done; err == nil {
		t.Error("memory that is not of Alloc is accepted")
	}
}

// S4.1, S4.2: nodes have periods of their own, and the space follows what they need.
func TestSpaceFollowsNeed(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 8 * slab, Lease: lease.Config{Grace: 200 * time.Millisecond}})
	a := join(t, dev, p, "a", 8)
	b := joinAs(t, dev, p, node.Config{Name: "b", Period: 20 * time.Millisecond})
	if l := b.Lease(); len(l.Slabs) != 0 {
		t.Errorf("the pool is full, and b has %+v", l)
	}
	a.SetDemand(page)
	b.SetDemand(8 * slab)
	waitLease(t, b, "space that a no longer needs", func(l node.Lease) bool { return len(l.Slabs) == 7 })
	a.SetDemand(8 * slab)
	b.SetDemand(0)
	waitLease(t, a, "space that b no longer needs", func(l node.Lease) bool { return l.Bytes() == 8*slab })
	a.SetDemand(0)
	waitLease(t, a, "end of the lease", func(l node.Lease) bool { return len(l.Slabs) == 0 })
	testkit.Must(t, errors.Join(a.Err(), b.Err()))
	first, second := a.Lease().Period, b.Lease().Period
	waitLease(t, a, "periods of a", func(l node.Lease) bool { return l.Period > first+2 })
	waitLease(t, b, "periods of b", func(l node.Lease) bool { return l.Period > second+2 })
}

// While slabs are accessed, they are returned and leased again: no access meets a key that is no longer
// valid.
func TestReturnWhileInUse(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 8 * slab, Lease: lease.Config{Grace: testkit.Patience}})
	n := join(t, dev, p, "a", 8)
	ctx := testkit.Context(t)
	done, stop := make(chan error, 1), make(chan struct{})
	go func() {
		buf := make([]byte, page)
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			l := n.Lease()
			if len(l.Slabs) == 0 {
				time.Sleep(time.Millisecond)
				continue
			}
			number := l.Slabs[i%len(l.Slabs)].Number
			err := errors.Join(n.Write(ctx, number, 0, buf), n.Read(ctx, number, 0, buf))
			if err != nil && !errors.Is(err, node.ErrNotLeased) {
				done <- err
				return
			}
		}
	}()
	for _, demand := range []uint64{0, 8 * slab, slab, 8 * slab} {
		n.SetDemand(demand)
		waitLease(t, n, "lease as demanded", func(l node.Lease) bool {
			for _, s := range l.Slabs {
				if !s.Return.IsZero() {
					testkit.Must(t, n.Return(ctx, s.Number))
				}
			}
			return len(l.Slabs) == int(demand/slab)
		})
	}
	close(stop)
	testkit.Must(t, <-done)
	if c := p.Status().Counts; c.Revoked != 0 || c.Returned == 0 || c.Lost != 0 {
		t.Errorf("%+v", c)
	}
}

// Two nodes want the last slab: one gets it.
func TestLastSlab(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: slab})
	type result struct {
		n   *node.Node
		err error
	}
	results := make(chan result, 4)
	for i := range cap(results) {
		go func() {
			n, err := node.Join(testkit.Context(t), dev, p.at, node.Config{Name: string(rune('a' + i)), Period: time.Minute, Demand: slab})
			results <- result{n, err}
		}()
	}
	have := 0
	for range cap(results) {
		r := <-results
		testkit.Must(t, r.err)
		have += len(r.n.Lease().Slabs)
		defer r.n.Close()
	}
	if have != 1 {
		t.Errorf("%d nodes have the one slab", have)
	}
}

// What the server refuses says why.
func TestRefused(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 2 * slab, Lease: lease.Config{MaxNodes: 1}})
	n := join(t, dev, p, "a", 1)
	for _, x := range []struct {
		c    node.Config
		want string
	}{
		{node.Config{Name: "a", Period: time.Second}, "another node has this name"},
		{node.Config{Name: "b", Period: time.Second}, "as many nodes as it accepts"},
		{node.Config{Name: "b", Period: time.Microsecond}, "choose 10ms to 1h"},
		{node.Config{Name: "b c", Period: time.Second}, "no spaces"},
	} {
		_, err := node.Join(testkit.Context(t), dev, p.at, x.c)
		var rejected *rdma.RejectedError
		if !errors.As(err, &rejected) || !bytes.Contains(rejected.Private, []byte(x.want)) {
			t.Errorf("%+v: %v", x.c, err)
		}
	}
	if _, err := node.Remove(testkit.Context(t), dev, p.at, "nobody", with(n.Ticket().Token)); err == nil {
		t.Error("a node that is not there was removed")
	}
	s := testkit.Must1(node.Remove(testkit.Context(t), dev, p.at, "a", with(n.Ticket().Token)))(t)
	if len(s.Nodes) != 0 {
		t.Errorf("after Remove: %+v", s)
	}
	<-n.Done()
	if !errors.Is(n.Err(), node.ErrRemoved) {
		t.Errorf("the node sees %v", n.Err())
	}
	join(t, dev, p, "b", 1)
	for _, c := range []server.Config{{}, {Bytes: 1}, {Bytes: 1 << 30, SlabBytes: 4097}, {Bytes: 1 << 60, SlabBytes: 4096}, {Bytes: 1 << 30, Lease: lease.Config{Grace: 2 * time.Hour}}} {
		if _, err := server.Listen(testkit.Context(t), dev, "127.0.0.1:0", c); err == nil {
			t.Errorf("accepted: %+v", c)
		}
	}
}

// Close without Leave keeps the lease and its data; a Ticket returns both.
func TestResume(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 2 * slab})
	ctx := testkit.Context(t)
	n := join(t, dev, p, "a", 1)
	number := n.Lease().Slabs[0].Number
	testkit.Must(t, n.Write(ctx, number, page, fill(7, page)))
	testkit.Must(t, n.Close())
	again := joinAs(t, dev, p, node.Config{Name: "a", Period: time.Second, Demand: slab, Ticket: n.Ticket()})
	got := make([]byte, page)
	testkit.Must(t, again.Read(ctx, number, page, got))
	if !again.Resumed() || !bytes.Equal(got, fill(7, page)) {
		t.Errorf("resumed: %v, data %d", again.Resumed(), got[0])
	}
	// A second connection with the ticket ends the first one: a node that has lost its connection need
	// not wait until the server has noticed it.
	third := joinAs(t, dev, p, node.Config{Name: "a", Period: time.Second, Demand: slab, Ticket: n.Ticket()})
	<-again.Done()
	testkit.Must(t, third.Read(ctx, number, page, got))
	if _, err := node.Join(ctx, dev, p.at, node.Config{Name: "a", Period: time.Second, Ticket: node.Ticket{Token: 1}}); err == nil {
		t.Error("a wrong token is accepted")
	}
}

// A node that does not come back has no lease after Hold.
func TestVanished(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: slab, Lease: lease.Config{Hold: 50 * time.Millisecond}})
	n := join(t, dev, p, "a", 1)
	testkit.Must(t, n.Close())
	waitStatus(t, p, "free slab", func(s lease.Status) bool { return s.Free == 1 && len(s.Nodes) == 0 })
	if l := join(t, dev, p, "b", 1).Lease(); len(l.Slabs) != 1 {
		t.Errorf("lease %+v", l)
	}
}

// The leases survive a restart of the server, and the node learns that its data does not.
func TestRestart(t *testing.T) {
	dev := open(t)
	c := server.Config{Bytes: 4 * slab, StateFile: t.TempDir() + "/pool.json"}
	p := serve(t, dev, c)
	n := join(t, dev, p, "a", 3)
	testkit.Must(t, n.Write(testkit.Context(t), n.Lease().Slabs[0].Number, 0, fill(1, page)))
	p.stop()
	<-n.Done()
	if n.Err() == nil {
		t.Error("the node does not notice the end of the server")
	}
	p = serve(t, dev, c)
	greedy := join(t, dev, p, "greedy", 4)
	if l := greedy.Lease(); len(l.Slabs) != 1 {
		t.Errorf("another node gets %+v", l)
	}
	again := joinAs(t, dev, p, node.Config{Name: "a", Period: time.Hour, Demand: 3 * slab, Ticket: n.Ticket()})
	if l := again.Lease(); len(l.Slabs) != 3 || again.Resumed() {
		t.Errorf("lease %+v, resumed: %v", l, again.Resumed())
	}
	got := fill(9, page)
	testkit.Must(t, again.Read(testkit.Context(t), again.Lease().Slabs[0].Number, 0, got))
	if !bytes.Equal(got, make([]byte, page)) {
		t.Errorf("data %d after the restart", got[0])
	}
	p.stop()
	c.SlabBytes = 2 * slab
	if _, err := server.Listen(testkit.Context(t), dev, "127.0.0.1:0", c); err == nil {
		t.Error("a state file with other slabs is accepted")
	}
}

// Reports of the server have the name and the address of the node.
func TestReport(t *testing.T) {
	dev := open(t)
	type report struct {
		name string
		from net.Addr
		err  error
	}
	reports := make(chan report, 10)
	p := serve(t, dev, server.Config{Bytes: slab, Report: func(name string, from net.Addr, err error) { reports <- report{name, from, err} }})
	n := join(t, dev, p, "a", 1)
	if r := <-reports; r.name != "a" || r.from == nil || r.err != nil {
		t.Errorf("%+v", r)
	}
	testkit.Must(t, n.Leave(testkit.Context(t)))
	if r := <-reports; r.name != "a" || r.err == nil {
		t.Errorf("%+v", r)
	}
}
