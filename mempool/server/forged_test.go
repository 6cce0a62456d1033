// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"net"
	"net/netip"
	"strings"
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

// requests of a host that knows all but the tokens: names are no secret.
func requests(victim string) []proto.Request {
	return []proto.Request{
		{Kind: proto.KindJoin, Name: "nobody", Period: time.Second, Demand: 1 << 40},
		{Kind: proto.KindRemove, Name: victim},
		{Kind: proto.KindStatus},
	}
}

// wantLease checks that a node has its lease, that it is the only one, and that its data is there.
func wantLease(t *testing.T, p *pool, n *node.Node, what string) {
	t.Helper()
	s := p.Status()
	if len(s.Nodes) != 1 || s.Nodes[0].Slabs != 2 || s.Free != s.Slabs-2 || s.Counts.Joins != 1 || s.Counts.Lost != 0 {
		t.Fatalf("%s: %+v", what, s)
	}
	got := make([]byte, page)
	testkit.Must(t, n.Read(testkit.Context(t), n.Lease().Slabs[0].Number, 0, got))
	if got[0] != 5 {
		t.Fatalf("%s: data %d, want 5", what, got[0])
	}
}

func joinWithData(t *testing.T, dev verbs.Device, p *pool) *node.Node {
	t.Helper()
	n := joinAs(t, dev, p, node.Config{Name: "a", Period: time.Hour, Demand: 2 * slab})
	testkit.Must(t, n.Write(testkit.Context(t), n.Lease().Slabs[0].Number, 0, fill(5, page)))
	return n
}

// A request, and even an established connection, changes nothing. Neither does a first message with another challenge
// than that of the REP, which a host that has forged the address of the request does not receive.
func TestForgedRequest(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 8 * slab})
	n := joinWithData(t, dev, p)
	for _, r := range requests("a") {
		c := rawDial(t, dev, p, r)
		wantLease(t, p, n, "an established connection")
		if m := rawBegin(t, c, 0, 1); m != nil {
			t.Errorf("kind %d: the answer to a wrong challenge is %T", r.Kind, m)
		}
		wantLease(t, p, n, "a wrong challenge")
	}
}

// A node is removed, and gives slabs back, by messages with its own token only. The token of another node is none.
func TestTickets(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 8 * slab})
	n := joinWithData(t, dev, p)
	for _, token := range []uint64{0, 1, n.Ticket().Token + 1, n.Ticket().Token ^ 1<<63} {
		if _, err := node.Remove(testkit.Context(t), dev, p.at, "a", with(token)); err == nil || !strings.Contains(err.Error(), lease.ErrToken.Error()) {
			t.Fatalf("removed with token %#x: %v", token, err)
		}
		wantLease(t, p, n, "a Remove with another token")
	}
	if _, err := node.Remove(testkit.Context(t), dev, p.at, "b", with(n.Ticket().Token)); err == nil {
		t.Error("a token removes a node with another name")
	}
	other := rawJoin(t, dev, p, "other", time.Hour, 0, 0)
	own := n.Ticket().Token
	_, err := node.Remove(testkit.Context(t), dev, p.at, "other", with(own))
	if err == nil {
		t.Error("a node has removed another one")
	}
	s, err := node.Remove(testkit.Context(t), dev, p.at, "other", with(other.welcome.Token))
	testkit.Must(t, err)
	if len(s.Nodes) != 1 {
		t.Errorf("after Remove: %+v", s)
	}
	if other.welcome.Token == own || own == 0 {
		t.Errorf("tokens %#x and %#x", own, other.welcome.Token)
	}
}

// A message of the connection of a node that has not its token ends the connection. The lease stays.
func TestMessageWithoutToken(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 8 * slab})
	n := rawJoin(t, dev, p, "a", time.Hour, 2*slab, 0)
	token := n.welcome.Token
	list := n.lease(t)
	for _, m := range []proto.Message{&proto.Leave{}, &proto.Leave{Token: token + 1}, &proto.Return{Slabs: []uint32{list[0].Slab}}, &proto.Report{}} {
		n.send(t, m)
		waitStatus(t, p, "end of the connection", func(s lease.Status) bool { return len(s.Nodes) == 0 || !s.Nodes[0].Connected })
		if s := p.Status(); len(s.Nodes) != 1 || s.Nodes[0].Slabs != 2 {
			t.Fatalf("after %T without the token: %+v", m, s)
		}
		_ = n.Close()
		n = rawJoin(t, dev, p, "a", time.Hour, 2*slab, token)
		n.lease(t)
	}
	n.send(t, &proto.Leave{Token: token})
	waitStatus(t, p, "Leave", func(s lease.Status) bool { return len(s.Nodes) == 0 })
}

// Connections whose peers send nothing keep nobody out, and have no place in the table. There are more of them than
// places.
func TestHalfOpen(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 8 * slab, Lease: lease.Config{MaxNodes: 1}})
	for i := range 70 { // a prefix has 32 places
		rawDial(t, dev, p, requests("a")[i%3])
	}
	if s := p.Status(); len(s.Nodes) != 0 || s.Free != 8 {
		t.Fatalf("%+v", s)
	}
	n := joinWithData(t, dev, p)
	wantLease(t, p, n, "half-open connections")
	_, err := node.Status(testkit.Context(t), dev, p.at)
	testkit.Must(t, err)
}

// The oldest connection whose peer sends nothing ends for another one, and not only when its time is over.
func TestOpeningsYield(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 8 * slab})
	p.LimitOpenings(2)
	for ctx := testkit.Context(t); ; {
		begin := time.Now()
		first := rawDial(t, dev, p, proto.Request{Kind: proto.KindStatus})
		for range 2 {
			rawDial(t, dev, p, proto.Request{Kind: proto.KindStatus})
		}
		if _, err := first.Recv(ctx, nil); err == nil {
			t.Error("a message without Begin")
		}
		if time.Since(begin) < server.OpenTime*9/10 {
			break
		}
		testkit.Must(t, ctx.Err())
	}
}

// The questions of a prefix that are being answered are bounded. Others go on, and the next one is answered when one of
// them has ended.
func TestQuestions(t *testing.T) {
	dev := open(t)
	p := serve(t, dev, server.Config{Bytes: 8 * slab})
	n := joinWithData(t, dev, p)
	var asked []*rdma.Conn
	for begin := time.Now(); ; {
		c := rawDial(t, dev, p, proto.Request{Kind: proto.KindStatus})
		m := rawBegin(t, c, 0, 0)
		if r, refused := m.(*proto.Refusal); refused {
			if !strings.Contains(string(r.Text), "ask again") {
				t.Errorf("refused: %q", r.Text)
			}
			break
		}
		if _, ok := m.(*proto.Text); !ok {
			t.Fatalf("%T", m)
		}
		asked = append(asked, c)
		if slow := time.Since(begin) > 5*time.Second; len(asked) > 8 && !slow {
			t.Fatalf("%d questions at once", len(asked))
		} else if slow { // the server ends the first ones after 10 s
			for _, c := range asked {
				_ = c.Close()
			}
			asked, begin = nil, time.Now()
		}
	}
	wantLease(t, p, n, "questions")
	for _, c := range asked {
		_ = c.Close()
	}
	for ctx := testkit.Context(t); ; {
		_, err := node.Status(ctx, dev, p.at)
		if err == nil {
			break
		}
		testkit.Must(t, ctx.Err())
	}
}

// Hosts of other prefixes have places of their own.
func TestPlaces(t *testing.T) {
	at := func(a string) net.Addr { return rdma.Addr{AddrPort: netip.AddrPortFrom(netip.MustParseAddr(a), 1)} }
	p := server.NewPlaces(3, 2)
	first, ok1 := p.Take(at("10.0.0.1"), nil)
	_, ok2 := p.Take(at("::ffff:10.0.0.2"), nil)
	if _, ok3 := p.Take(at("10.0.0.3"), nil); !ok1 || !ok2 || ok3 {
		t.Errorf("of two places of a prefix: %v, %v, %v", ok1, ok2, ok3)
	}
	if _, ok := p.Take(at("fd00:0:0:1::1"), nil); !ok {
		t.Error("another prefix has no place")
	}
	if _, ok := p.Take(at("fd00:0:0:2::1"), nil); ok {
		t.Error("a fourth place of three")
	}
	first()
	if _, ok := p.Take(at("fd00:0:0:2::1"), nil); !ok {
		t.Error("a place that was given back is taken")
	}

	var ended []int
	p = server.NewPlaces(4, 2)
	for i, a := range []string{"10.0.1.1", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.2.1", "10.0.3.1"} {
		if _, ok := p.Take(at(a), func() { ended = append(ended, i) }); !ok {
			t.Errorf("%s finds no place, and others yield", a)
		}
	}
	if len(ended) != 2 || ended[0] != 1 || ended[1] != 0 {
		t.Errorf("%v have yielded, want the oldest one of the prefix, then the oldest one of all", ended)
	}
}
