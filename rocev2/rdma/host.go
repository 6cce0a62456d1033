// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"errors"
	"fmt"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// host is what all connections and listeners of a device share: the session of the communication
// manager, a protection domain, and the goroutine that distributes events. It begins with the first
// Dial, Listen or Resolve, and ends with the device.
type host struct {
	dev     verbs.Device
	pd      verbs.PD
	session cm.Session

	mu        sync.Mutex
	ended     error // reason why the device has ended
	handlers  map[cm.ID]handler
	listeners map[mad.ServiceID]requestQueue
	early     map[cm.ID][]cm.Event // events of IDs whose handler is not known yet
}

// handler gets the events of an ID, in order, from the goroutine of the host. It does not block.
// cm.Gone is the last one, unless the device ends before.
type handler interface{ event(e cm.Event) }

// requestQueue gets the requests for a service. It returns the handler of the request's ID, or nil
// for a request that it refuses.
type requestQueue interface {
	request(e cm.Event) handler
	deviceEnded(why error)
}

// hosts has what opens the host of a device, or returns the open one. The lock is not held while a device answers:
// a device in another process may be stopped.
var hosts = struct {
	sync.Mutex
	byDevice map[verbs.Device]func() (*host, error)
}{byDevice: map[verbs.Device]func() (*host, error){}}

// ErrNoCM: the device cannot connect by address.
var ErrNoCM = errors.New("the device has no communication manager: exchange QPN, PSN and address by other means, and use verbs.Connect")

// hostOf returns the host of a device. Calls during the same attempt to open it have the same result, and the first
// call after a failure tries again.
func hostOf(dev verbs.Device) (*host, error) {
	hosts.Lock()
	open := hosts.byDevice[dev]
	if open == nil {
		open = sync.OnceValues(func() (*host, error) {
			h, err := openHost(dev)
			if err != nil {
				forgetHost(dev)
			}
			return h, err
		})
		hosts.byDevice[dev] = open
	}
	hosts.Unlock()
	return open()
}

// forgetHost ends the entry of a device in hosts.
func forgetHost(dev verbs.Device) {
	hosts.Lock()
	defer hosts.Unlock()
	delete(hosts.byDevice, dev)
}

func openHost(dev verbs.Device) (*host, error) {
	c, ok := dev.(cm.Connector)
	if !ok {
		return nil, ErrNoCM
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, err
	}
	s, err := c.OpenCM()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the communication manager: %w", err), pd.Free())
	}
	h := &host{
		dev: dev, pd: pd, session: s, handlers: map[cm.ID]handler{}, listeners: map[mad.ServiceID]requestQueue{},
		early: map[cm.ID][]cm.Event{},
	}
	go h.run()
	return h, nil
}

// run distributes events until the device ends.
func (h *host) run() {
	for e := range h.session.Events() {
		h.dispatch(e)
	}
	forgetHost(h.dev)
	why := endOf(h.dev)
	h.mu.Lock()
	h.ended = why
	handlers, listeners := h.handlers, h.listeners
	h.handlers, h.listeners = nil, nil
	h.mu.Unlock()
	for id, x := range handlers {
		x.event(cm.Event{ID: id, Kind: cm.Disconnected, Err: why})
		x.event(cm.Event{ID: id, Kind: cm.Gone})
	}
	for _, l := range listeners {
		l.deviceEnded(why)
	}
}

// endOf returns why a device has ended: an error that wraps verbs.ErrGone, or verbs.ErrClosed.
func endOf(dev verbs.Device) error {
	if _, err := dev.Port(); errors.Is(err, verbs.ErrGone) {
		return err
	}
	return verbs.ErrClosed
}

func (h *host) dispatch(e cm.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Kind == cm.Request || e.Kind == cm.ResolveRequest {
		if l := h.listeners[e.Service]; l != nil {
			if x := l.request(e); x != nil {
				h.handlers[e.ID] = x
				return
			}
		}
		h.handlers[e.ID] = noHandler{}
		go func() { _ = h.session.Reject(e.ID, nil) }() // it may have ended by now
		return
	}
	x := h.handlers[e.ID]
	if x == nil {
		h.early[e.ID] = append(h.early[e.ID], e)
		return
	}
	if e.Kind == cm.Gone {
		delete(h.handlers, e.ID)
	}
	x.event(e)
}

// handle has the events of an ID go to x, also those that came before.
func (h *host) handle(id cm.ID, x handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	early := h.early[id]
	delete(h.early, id)
	if h.ended != nil {
		early = append(early, cm.Event{ID: id, Kind: cm.Disconnected, Err: h.ended}, cm.Event{ID: id, Kind: cm.Gone})
	} else {
		h.handlers[id] = x
	}
	for _, e := range early {
		if e.Kind == cm.Gone {
			delete(h.handlers, id)
		}
		x.event(e)
	}
}

// takeOver has the events of a request go to x from now on. The error says why the request is gone.
func (h *host) takeOver(id cm.ID, x handler) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return h.ended
	}
	if h.handlers[id] == nil {
		return errGivenUp
	}
	h.handlers[id] = x
	return nil
}

// listen has the requests for a service go to q.
func (h *host) listen(s mad.ServiceID, backlog int, q requestQueue) error {
	h.mu.Lock()
	if h.ended != nil {
		h.mu.Unlock()
		return h.ended
	}
	if h.listeners[s] != nil {
		h.mu.Unlock()
		return fmt.Errorf("%w: %s", cm.ErrInUse, s)
	}
	h.listeners[s] = q
	h.mu.Unlock()
	if err := h.session.Listen(s, backlog); err != nil {
		h.unlisten(s)
		return err
	}
	return nil
}

func (h *host) unlisten(s mad.ServiceID) {
	h.mu.Lock()
	delete(h.listeners, s)
	h.mu.Unlock()
}

// noHandler ignores events of a request that is refused.
type noHandler struct{}

func (noHandler) event(cm.Event) {}
