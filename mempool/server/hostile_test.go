// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/mempool/internal/proto"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/server"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// rawNode is a node that does what it likes: a connection without package node.
type rawNode struct {
	*rdma.Conn
	welcome proto.Welcome
}

func rawJoin(t *testing.T, dev verbs.Device, p *pool, name string, period time.Duration, demand uint64, token uint64) *rawNode {
	t.Helper()
	c := rawDial(t, dev, p, proto.Request{Kind: proto.KindJoin, Name: name, Period: period, Demand: demand, Token: token})
	w, ok := rawBegin(t, c, 0, 0).(*proto.Welcome)
	if !ok {
		t.Fatalf("%s is refused", name)
	}
	return &rawNode{c, *w}
}

// rawDial makes a connection, on which nothing is sent.
func rawDial(t *testing.T, dev verbs.Device, p *pool, r proto.Request) *rdma.Conn {
	t.Helper()
	private := testkit.Must1(r.AppendBinary(nil))(t)
	c := testkit.Must1(rdma.Dial(testkit.Context(t), dev, p.at, rdma.WithPrivate(private), rdma.WithMaxMessage(proto.MaxMessage)))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// rawBegin sends Begin with a token, and with the challenge of the server plus a number. It returns the answer, or nil
// if the server ends the connection.
func rawBegin(t *testing.T, c *rdma.Conn, token, wrong uint64) proto.Message {
	t.Helper()
	o, err := proto.ParseOffer(c.PeerPrivate())
	testkit.Must(t, err)
	testkit.Must(t, c.Send(testkit.Context(t), proto.Append(nil, &proto.Begin{Token: token, Challenge: o.Challenge + wrong})))
	ctx, buf := testkit.Context(t), make([]byte, proto.MaxMessage)
	n, err := c.Recv(ctx, buf)
	if err != nil {
		testkit.Must(t, ctx.Err())
		return nil
	}
	m, err := proto.Parse(buf[:n])
	testkit.Must(t, err)
	return m
}

// lease returns the next lease.
func (n *rawNode) lease(t *testing.T) []proto.Entry {
	t.Helper()
	buf := make([]byte, proto.MaxMessage)
	var j proto.Joiner
	for {
		length := testkit.Must1(n.Recv(testkit.Context(t), buf))(t)
		m := testkit.Must1(proto.Parse(buf[:length]))(t)
		if l, ok := m.(*proto.Lease); ok {
			if list, whole := j.Add(l); whole {
				return list
			}
		}
	}
}

func (n *rawNode) send(t *testing.T, m proto.Message) {
	t.Helper()
	testkit.Must(t, n.Send(testkit.Context(t), proto.Append(nil, m)))
}

// with returns the token of a node for node.Remove.
func with(token uint64) func(net.Addr) (node.Ticket, error) {
	return func(net.Addr) (node.Ticket, error) { return node.Ticket{Token: token}, nil }
}

func remote(e proto.Entry) rdma.Remote { return rdma.Remote{Addr: e.VA, Len: slab, RKey: e.RKey} }

// wantNAK checks that an access failed because of a wrong key.
func wantNAK(t *testing.T, err error) {
	t.Helper()
	var e *rdma.Error
	if !errors.As(err, &e) || e.Status != verbs.StatusRemoteAccess {
		t.Errorf("%v, want %v", err, verbs.StatusRemoteAccess)
	}
}

// A key that was revoked gets a NAK, also while the slab is free and when another node has it. The other
// node finds zeroes, and its data is not read and not changed.
func TestOldKey(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: slab})
	secret := fill(42, page)
	victim := rawJoin(t, dev, p, "a", time.Hour, slab, 0)
	old := victim.lease(t)[0]
	testkit.Must(t, victim.Write(testkit.Context(t), secret, remote(old)))
	victim.send(t, &proto.Return{Token: victim.welcome.Token, Slabs: []uint32{old.Slab}})
	waitStatus(t, p, "free slab", func(s lease.Status) bool { return s.Free == 1 })
	wantNAK(t, victim.Read(testkit.Context(t), make([]byte, page), remote(old)))
	waitStatus(t, p, "end of the connection", func(s lease.Status) bool { return !s.Nodes[0].Connected })

	other := rawJoin(t, dev, p, "b", time.Hour, slab, 0)
	now := other.lease(t)[0]
	got := fill(1, slab)
	testkit.Must(t, other.Read(testkit.Context(t), got, remote(now)))
	if !bytes.Equal(got, make([]byte, slab)) {
		t.Fatal("a new lease has data of another node")
	}
	testkit.Must(t, other.Write(testkit.Context(t), secret, remote(now)))
	for _, key := range []uint32{old.RKey, now.RKey} {
		back := rawJoin(t, dev, p, "a", time.Hour, 0, victim.welcome.Token)
		back.lease(t)
		target := rdma.Remote{Addr: now.VA, Len: slab, RKey: key}
		wantNAK(t, back.Write(testkit.Context(t), fill(66, page), target))
		_ = back.Close()
	}
	testkit.Must(t, other.Read(testkit.Context(t), got[:page], remote(now)))
	if !bytes.Equal(got[:page], secret) {
		t.Error("a node without a lease has changed the data of another one")
	}
}

// A slab that is not returned in time is revoked: the next access gets a NAK, and the slab is leased to
// others.
func TestNotReturned(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 2 * slab, Lease: lease.Config{Grace: 50 * time.Millisecond, Answer: 50 * time.Millisecond}})
	stubborn := rawJoin(t, dev, p, "stubborn", 50*time.Millisecond, 2*slab, 0)
	list := stubborn.lease(t)
	if len(list) != 2 {
		t.Fatalf("%+v", list)
	}
	n := join(t, dev, p, "b", 2)
	ctx := testkit.Context(t)
	for len(n.Lease().Slabs) == 0 {
		select {
		case <-n.Changed():
		case <-ctx.Done():
			t.Fatal("the other node gets nothing")
		}
	}
	wantNAK(t, errors.Join(stubborn.Read(ctx, make([]byte, page), remote(list[0])), stubborn.Read(ctx, make([]byte, page), remote(list[1]))))
	if c := p.Status().Counts; c.Revoked == 0 || c.NoReports == 0 {
		t.Errorf("%+v", c)
	}
}

// A key is revoked while the node reads and writes the slab without a pause, and the slab is leased to another
// node. Each READ before has what was written; the access that meets the end of the key gets a NAK, and no READ
// has zeroes. The other node finds zeroes, and what it writes is not changed.
func TestRevokedDuringAccess(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 2 * slab, Lease: lease.Config{Grace: 100 * time.Millisecond, Answer: 50 * time.Millisecond}})
	victim := rawJoin(t, dev, p, "victim", 50*time.Millisecond, 2*slab, 0)
	at := remote(victim.lease(t)[1]) // what was leased last is taken first
	old := sha256.Sum256(fill(42, slab))
	testkit.Must(t, victim.Write(testkit.Context(t), fill(42, slab), at))
	ended := make(chan error, 1)
	go func() {
		ctx, data, got := testkit.Context(t), fill(42, slab), make([]byte, slab)
		for accesses := 0; ; accesses++ {
			err := victim.Read(ctx, got, at)
			if err == nil && sha256.Sum256(got) != old {
				err = fmt.Errorf("READ %d has other data: it begins with %d", accesses, got[0])
			}
			if err == nil && accesses%8 == 0 { // seldom: a WRITE would repair what READs shall find
				err = victim.Write(ctx, data, at)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	go func() { // it takes its messages, and returns nothing
		for buf := make([]byte, proto.MaxMessage); ; {
			if _, err := victim.Recv(context.Background(), buf); err != nil {
				return
			}
		}
	}()
	other := join(t, dev, p, "other", 2)
	waitLease(t, other, "revoked slab", func(l node.Lease) bool { return len(l.Slabs) > 0 })
	select {
	case err := <-ended:
		wantNAK(t, err)
	case <-testkit.Context(t).Done():
		t.Fatal("the accesses of the node do not end")
	}
	number, got := other.Lease().Slabs[0].Number, fill(9, page)
	for offset := uint64(0); offset < slab; offset += page {
		testkit.Must(t, other.Read(testkit.Context(t), number, offset, got))
		if !bytes.Equal(got, make([]byte, page)) {
			t.Fatalf("the new lease has %d at %d", got[0], offset)
		}
	}
	if c := p.Status().Counts; c.Revoked == 0 {
		t.Errorf("%+v", c)
	}
}

// A node that tries keys finds none but its own, and others go on.
func TestTriesKeys(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 4 * slab})
	n := join(t, dev, p, "a", 2)
	ctx := testkit.Context(t)
	first := n.Lease().Slabs[0]
	testkit.Must(t, n.Write(ctx, first.Number, 0, fill(5, page)))
	hostile := rawJoin(t, dev, p, "hostile", time.Hour, slab, 0)
	own := hostile.lease(t)[0]
	guesses := []uint32{first.Remote.RKey, own.RKey, own.RKey ^ 1, own.RKey + 1<<8, own.RKey - 1<<8, 0, 1<<32 - 1}
	for _, key := range guesses {
		wantNAK(t, hostile.Write(ctx, fill(66, page), rdma.Remote{Addr: first.Remote.Addr, Len: slab, RKey: key}))
		_ = hostile.Close()
		hostile = rawJoin(t, dev, p, "hostile", time.Hour, slab, hostile.welcome.Token)
		hostile.lease(t)
	}
	// Neither can it return what is not its own.
	hostile.send(t, &proto.Return{Token: hostile.welcome.Token, Slabs: []uint32{first.Number, 99}})
	waitStatus(t, p, "refused Return", func(s lease.Status) bool { return s.Counts.Stale == 2 })
	got := make([]byte, page)
	testkit.Must(t, n.Read(ctx, first.Number, 0, got))
	if !bytes.Equal(got, fill(5, page)) {
		t.Errorf("data %d", got[0])
	}
}

// Garbage ends the connection that it comes by, and nothing else.
func TestGarbage(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 4 * slab})
	n := join(t, dev, p, "a", 2)
	number := n.Lease().Slabs[0].Number
	testkit.Must(t, n.Write(testkit.Context(t), number, 0, fill(5, page)))
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 20 {
		private := make([]byte, rng.IntN(57))
		for k := range private {
			private[k] = byte(rng.Uint32())
		}
		var rejected *rdma.RejectedError
		if _, err := rdma.Dial(testkit.Context(t), dev, p.at, rdma.WithPrivate(private)); !errors.As(err, &rejected) {
			t.Fatalf("private data %x: %v", private, err)
		}
		hostile := rawJoin(t, dev, p, "hostile", time.Second, slab, 0)
		message := make([]byte, rng.IntN(100))
		for k := range message {
			message[k] = byte(rng.Uint32())
		}
		if i == 0 {
			message = proto.Append(nil, &proto.Ask{}) // of the server only
		}
		ctx := testkit.Context(t)
		testkit.Must(t, hostile.Send(ctx, message))
		for err := error(nil); err == nil; {
			_, err = hostile.Recv(ctx, make([]byte, proto.MaxMessage))
			testkit.Must(t, ctx.Err())
		}
		_ = hostile.Close()
		_, err := node.Remove(ctx, dev, p.at, "hostile", with(hostile.welcome.Token)) // so that its name is free
		testkit.Must(t, err)
	}
	got := make([]byte, page)
	testkit.Must(t, n.Read(testkit.Context(t), number, 0, got))
	if sha256.Sum256(got) != sha256.Sum256(fill(5, page)) {
		t.Errorf("another node's data begins with %d", got[0])
	}
	testkit.Must(t, n.Err())
}
