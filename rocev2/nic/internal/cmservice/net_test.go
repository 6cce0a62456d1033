// SPDX-License-Identifier: Apache-2.0

package cmservice_test

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/cmservice"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const port = mad.ServiceID(0x01060000 | 7174) // TCP port 7174

var (
	addrA = netip.MustParseAddr("10.0.0.1")
	addrB = netip.MustParseAddr("10.0.0.2")
)

// network joins two services on the virtual time of a bubble.
type network struct {
	mu   sync.Mutex
	rand *rand.Rand
	loss int // percent
	ends map[netip.Addr]*end
	sent map[mad.Attr]int

	proof cm.Proof // proof carried by all messages
}

// end is one host: its service, and what its transport was told.
type end struct {
	net    *network
	svc    *cmservice.Service
	gate   chan struct{}           // Steer blocks on this channel if it is not nil
	refuse error                   // error returned by Steer
	keys   map[cm.Key]bool         // keys that are switched on
	lose   func(h mad.Header) bool // chooses messages that are lost in addition to the random ones
	reach  func(then func()) bool  // nil: all paths are known
}

func newNetwork(t *testing.T, seed uint64) (a, b *end) {
	n := &network{rand: rand.New(rand.NewPCG(seed, 1)), ends: map[netip.Addr]*end{}, sent: map[mad.Attr]int{}, proof: cm.Plain}
	for _, addr := range []netip.Addr{addrA, addrB} {
		e := &end{net: n, keys: map[cm.Key]bool{}}
		e.svc = cmservice.New(e, cm.Config{Alone: func() bool { return true }, Rand: n.uint32})
		n.ends[addr] = e
		t.Cleanup(e.svc.Close)
	}
	return n.ends[addrA], n.ends[addrB]
}

func (n *network) uint32() uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rand.Uint32()
}

// Send implements cmservice.Transport.
func (e *end) Send(local, peer netip.Addr, m mad.Header) {
	n := e.net
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent[m.Attr()]++
	if n.rand.IntN(100) < n.loss || e.lose != nil && e.lose(m) {
		return
	}
	delay := time.Duration(n.rand.IntN(int(time.Millisecond)))
	time.AfterFunc(delay, func() { n.ends[peer].svc.Receive(local, peer, m, n.proof) })
}

// Reach implements cmservice.Transport.
func (e *end) Reach(_, _ netip.Addr, _ cm.Proof, then func()) bool {
	return e.reach == nil || e.reach(then)
}

// Steer implements cmservice.Transport.
func (e *end) Steer(s cm.Steer) error {
	if e.gate != nil {
		<-e.gate
	}
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	if e.refuse != nil && !s.Off {
		return e.refuse
	}
	k := s.Key
	if id, ok := k.(cm.KeyID); ok {
		k = cm.KeyID{ID: id.ID} // the rest may change
	}
	if s.Off {
		delete(e.keys, k)
	} else {
		e.keys[k] = true
	}
	return nil
}

func (e *end) refuses(err error) {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	e.refuse = err
}

func (e *end) keysOn() int {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	return len(e.keys)
}

func (e *end) open(t *testing.T) cm.Session {
	t.Helper()
	s := testkit.Must1(e.svc.Open())(t)
	return s
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}

// await takes the next event, which must be of a kind.
func await(t *testing.T, s cm.Session, want cm.Kind) cm.Event {
	t.Helper()
	select {
	case e, ok := <-s.Events():
		if !ok || e.Kind != want {
			t.Fatalf("event %s (%v), want %s", e.Kind, e.Err, want)
		}
		return e
	case <-time.After(10 * time.Minute):
		t.Fatalf("no event, want %s", want)
	}
	return cm.Event{}
}

// nothing wants no event within an hour.
func nothing(t *testing.T, s cm.Session) {
	t.Helper()
	select {
	case e, ok := <-s.Events():
		t.Errorf("event %s (open: %v), want none", e.Kind, ok)
	case <-time.After(time.Hour):
	}
}

func params() cm.ConnectParams {
	return cm.ConnectParams{
		Local: addrA, Peer: addrB, Service: port, SrcPort: 5555, QPN: 0x55, PSN: 0x111111, Attr: verbs.DefaultAttr(),
	}
}

// accept accepts a Request with a queue pair.
func accept(t *testing.T, s cm.Session, e cm.Event, qpn uint32) {
	t.Helper()
	e.Path.Local.QPN, e.Path.Remote.PSN = qpn, 0x222222
	testkit.Must(t, s.Accept(e.ID, e.Path, nil))
}

// connected connects two sessions and returns the IDs of both ends.
func connected(t *testing.T, a, b cm.Session) (idA, idB cm.ID) {
	t.Helper()
	idA = testkit.Must1(a.Connect(params()))(t)
	req := await(t, b, cm.Request)
	accept(t, b, req, 0x66)
	testkit.Must(t, a.Ready(await(t, a, cm.Reply).ID, nil))
	await(t, a, cm.Established)
	await(t, b, cm.Established)
	return idA, req.ID
}
