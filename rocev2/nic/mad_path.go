// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/internal/share"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/cmservice"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
)

// madPort is the transport of the communication manager: it finds the path of a message and passes it
// to the core. Paths are kept while they are used. mad_request.go has the requests that wait for the path
// to their sender.
type madPort struct {
	dev *Device

	mu     sync.Mutex
	paths  map[madAddrs]*madPath
	places share.Table[madAddrs] // places of the paths that are being resolved
	slots  chan struct{}         // slots of the paths for which the kernel is asked
	asks   askLimit
	swept  time.Time
	count  madPathCounters
}

var _ cmservice.Transport = (*madPort)(nil)

type madAddrs struct{ local, peer netip.Addr }

type madPath struct {
	ah       *AH // nil until the neighbour is known
	waiting  []mad.Header
	requests []func() // callers of Reach
	asked    bool     // more than answers was sent by this host (engine.Core.OpenForAnswers)
	used     time.Time

	// Rank of a path that is being resolved.
	rank   int
	place  *share.Place[madAddrs]
	cancel context.CancelFunc
}

// madPathCounters count what was dropped because of its path.
type madPathCounters struct{ unresolved, unsent uint64 }

const (
	// madResolves is how many paths are resolved at a time. Beyond it they compete (package share).
	madResolves = 256
	// madDoubtful is how many of them may be to hosts in whose name a message without token has arrived.
	madDoubtful = 8
	// madWaits is how many messages, and how many requests, wait for one path; more are lost.
	madWaits = 16
	// madPathLife is how long a path is kept without use.
	madPathLife = time.Minute
	// madPathsMany is from how many paths on those that only answers have used are kept for madAnswerLife:
	// anybody can have a REQ answered, in the name of any address behind a gateway.
	madPathsMany  = 8192
	madAnswerLife = time.Second
)

// The ranks of paths that are resolved: what they are for. A higher one is never displaced by a lower one.
const (
	rankDoubtful = iota // a request in the name of a host that stamps, without its token
	rankAnswer          // an answer to a message that anyone can have sent
	rankPlain           // a request for a listener, of a host that does not stamp
	rankProven          // a request for a listener whose stamp proves its sender
	rankOwn             // what nobody can cause by a forged message: requests, RTU and DREQ of this end
)

func newMADPort(d *Device) *madPort {
	return &madPort{
		dev: d, paths: map[madAddrs]*madPath{}, swept: time.Now(), slots: make(chan struct{}, madResolves),
		places: share.Table[madAddrs]{Max: madResolves, MaxLowest: madDoubtful, Refresh: true},
	}
}

// Steer implements cmservice.Transport.
func (t *madPort) Steer(s cm.Steer) error { return t.dev.dataplane.SteerMAD(s) }

// counters returns the counters.
func (t *madPort) counters() madPathCounters {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// Send implements cmservice.Transport.
func (t *madPort) Send(local, peer netip.Addr, m mad.Header) {
	rank := rankAnswer
	if !isAnswer(m) {
		rank = rankOwn
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.path(madAddrs{local, peer}, rank)
	if p != nil {
		t.noteAsked(p, m)
	}
	switch {
	case p == nil || p.ah == nil && len(p.waiting) >= madWaits:
		t.count.unsent++
	case p.ah != nil:
		t.pass(p.ah, m)
	default:
		p.waiting = append(p.waiting, m)
	}
}

// noteAsked makes the destination of a path an ordinary one when the first message that is no answer is
// sent there.
func (t *madPort) noteAsked(p *madPath, m mad.Header) {
	if p.asked || isAnswer(m) {
		return
	}
	p.asked = true
	if a := p.ah; a != nil {
		e := t.dev.eng
		e.post(func() { e.core.OpenForData(&a.address) })
	}
}

func (t *madPort) pass(a *AH, m mad.Header) {
	e := t.dev.eng
	e.post(func() { e.core.SendMAD(a, m) })
}

// path returns a path, which it begins to resolve if it is new. nil: others have the places. The port is locked.
func (t *madPort) path(k madAddrs, rank int) *madPath {
	now := time.Now()
	t.sweep(now)
	p := t.paths[k]
	if p == nil {
		if p = t.begin(k, rank); p == nil {
			return nil
		}
	} else if p.ah == nil && rank > p.rank {
		t.places.Free(p.place)
		p.rank = rank
		p.place, _ = t.places.Take(k.peer, rank, k) // its own place has just become free
	}
	p.used = now
	return p
}

func (t *madPort) begin(k madAddrs, rank int) *madPath {
	place, lost := t.places.Take(k.peer, rank, k)
	if place == nil {
		return nil
	}
	if lost != nil {
		t.fail(lost.Value, t.paths[lost.Value])
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.dev.opts.ResolveTimeout)
	p := &madPath{rank: rank, place: place, cancel: cancel}
	t.paths[k] = p
	go t.resolve(ctx, k, p)
	return p
}

// fail ends the resolution of a path. What waits for it is lost, and the next message begins anew.
func (t *madPort) fail(k madAddrs, p *madPath) {
	if t.paths[k] != p || p.ah != nil {
		return // it was displaced
	}
	t.count.unresolved += uint64(len(p.requests))
	t.count.unsent += uint64(len(p.waiting))
	delete(t.paths, k)
	t.places.Free(p.place)
	p.cancel()
}

// resolve waits for the neighbour of a path, and sends what waits for it.
func (t *madPort) resolve(ctx context.Context, k madAddrs, p *madPath) {
	a, err := t.find(ctx, k, p)
	t.mu.Lock()
	if a == nil {
		asked := p.asked && t.paths[k] == p
		t.fail(k, p)
		t.mu.Unlock()
		if svc := t.dev.cm.svc.Load(); svc != nil && asked && errors.Is(err, route.ErrNeighbour) {
			svc.Unreachable(k.local, k.peer, err)
		}
		return
	}
	defer t.mu.Unlock()
	if t.paths[k] != p {
		t.release(a)
		return
	}
	t.places.Free(p.place)
	p.cancel()
	p.ah = a
	if p.asked {
		t.dev.eng.post(func() { t.dev.eng.core.OpenForData(&a.address) })
	}
	for _, m := range p.waiting {
		t.pass(a, m)
	}
	for _, then := range p.requests {
		then()
	}
	p.waiting, p.requests, p.place = nil, nil, nil
}

// find resolves a path; nil: there is none, or it was not looked for, which is no error.
func (t *madPort) find(ctx context.Context, k madAddrs, p *madPath) (*AH, error) {
	d := t.dev
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done(): // it was displaced
		return nil, nil
	}
	if ctx.Err() != nil || !t.mayAsk(k, p) {
		return nil, nil
	}
	path, err := d.resolveUntil(ctx, d.routes, d.opts.Interface, k.local, k.peer)
	if err != nil {
		return nil, err
	}
	a := &AH{dev: d, address: engine.Address{Path: &path.Path, Flow: engine.Flow{HopLimit: rocev2.DefaultTTL}}}
	if d.do(func() error { d.eng.core.OpenForAnswers(&a.address); return nil }) != nil {
		path.Release()
		return nil, nil
	}
	return a, nil
}

// sweep gives back paths that have not been used for long.
func (t *madPort) sweep(now time.Time) {
	many := len(t.paths) > madPathsMany
	if age := now.Sub(t.swept); age < madPathLife/2 && (!many || age < madAnswerLife) {
		return
	}
	t.swept = now
	for k, p := range t.paths {
		idle := now.Sub(p.used)
		if a := p.ah; a != nil && (idle > madPathLife || many && !p.asked && idle > madAnswerLife) {
			delete(t.paths, k)
			t.release(a)
		}
	}
}

// release gives a path back that no message uses any more.
func (t *madPort) release(a *AH) {
	e := t.dev.eng
	e.post(func() { e.core.Close(&a.address) })
	go a.address.Path.Release() // it may wait for the table, which asks the kernel
}

// isAnswer reports whether a message of the communication manager answers one that may be forged.
func isAnswer(m mad.Header) bool {
	switch m.Attr() {
	case mad.AttrMRA, mad.AttrREJ, mad.AttrREP, mad.AttrDREP, mad.AttrSIDRREP:
		return true
	}
	return false
}
