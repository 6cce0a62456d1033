// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/cm/service"
	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// madPort is the transport of the connection manager: it finds the path of a message and passes it
// to the engine (mad.go). Paths are kept while they are used.
type madPort struct {
	dev   *Device
	slots chan struct{} // one for each path that is being resolved

	mu    sync.Mutex
	paths map[madAddrs]*madPath
	swept time.Time
}

var _ service.Transport = (*madPort)(nil)

type madAddrs struct{ local, peer netip.Addr }

type madPath struct {
	ah      *AH // nil until the neighbour is known
	waiting []mad.Header
	asked   bool // this host has sent more than answers (answers.go)
	used    time.Time
}

const (
	// madResolves is how many paths are resolved at a time. Messages to more are lost, so that
	// requests in the name of many others do not make this host ask for as many neighbours.
	madResolves = 256
	// madWaits is how many messages wait for one path; more are lost.
	madWaits = 16
	// madPathLife is how long a path is kept without use.
	madPathLife = time.Minute
)

func newMADPort(d *Device) *madPort {
	return &madPort{dev: d, slots: make(chan struct{}, madResolves), paths: map[madAddrs]*madPath{}, swept: time.Now()}
}

// Steer implements service.Transport.
func (t *madPort) Steer(s cm.Steer) error { return t.dev.dataplane.SteerMAD(s) }

// Send implements service.Transport.
func (t *madPort) Send(local, peer netip.Addr, m mad.Header) {
	now, k := time.Now(), madAddrs{local, peer}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	p := t.paths[k]
	if p == nil {
		select {
		case t.slots <- struct{}{}:
		default:
			return
		}
		p = &madPath{}
		t.paths[k] = p
		go t.resolve(k, p)
	}
	p.used = now
	t.noteAsked(p, m)
	switch {
	case p.ah != nil:
		t.pass(p.ah, m)
	case len(p.waiting) < madWaits:
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
		e.post(func() {
			if a.dest != nil {
				e.endAnswers(a.dest)
			}
		})
	}
}

func (t *madPort) pass(a *AH, m mad.Header) {
	e := t.dev.eng
	e.post(func() { e.queueMAD(a, m) })
}

// resolve waits for the neighbour of a path, and sends what waits for it. If there is none, the
// messages are lost, and the next one begins anew.
func (t *madPort) resolve(k madAddrs, p *madPath) {
	defer func() { <-t.slots }()
	path, err := t.dev.resolve(k.local, k.peer)
	if err == nil {
		a := &AH{dev: t.dev, path: path, flow: flow{HopLimit: rocev2.DefaultTTL}}
		if err = t.dev.do(func() error { a.dest = t.dev.eng.answerDestination(path); return nil }); err == nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			p.ah = a
			if p.asked {
				t.dev.eng.post(func() { t.dev.eng.endAnswers(a.dest) })
			}
			for _, m := range p.waiting {
				t.pass(a, m)
			}
			p.waiting = nil
			return
		}
		path.Release()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.paths, k)
}

// sweep gives back paths that have not been used for long.
func (t *madPort) sweep(now time.Time) {
	if now.Sub(t.swept) < madPathLife/2 {
		return
	}
	t.swept = now
	for k, p := range t.paths {
		if a := p.ah; a != nil && now.Sub(p.used) > madPathLife {
			delete(t.paths, k)
			e := t.dev.eng
			e.post(func() {
				e.drop(a.dest)
				a.dest = nil
			})
			go a.path.Release() // it may wait for the table, which asks the kernel
		}
	}
}
