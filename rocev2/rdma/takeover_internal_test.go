// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"errors"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// idleQP is a queue pair without a device.
type idleQP struct{ verbs.QP }

func (idleQP) Modify(verbs.Attr, verbs.AttrMask) error { return nil }

func newIdleHost() *host {
	h := &host{handlers: map[cm.ID]handler{}, early: map[cm.ID][]cm.Event{}}
	h.handlers[1] = &Request{l: &Listener{host: h}, e: cm.Event{ID: 1}}
	return h
}

// A request whose peer gives up between the event that says so and the last one, while it is accepted, ends.
func TestTakeOverBeforeGone(t *testing.T) {
	h := newIdleHost()
	h.dispatch(cm.Event{ID: 1, Kind: cm.Failed, Err: errors.New("given up")})
	l := newLink(h, idleQP{})
	if err := h.takeOver(1, l); err != nil {
		t.Fatal(err)
	}
	h.dispatch(cm.Event{ID: 1, Kind: cm.Gone})
	select {
	case <-l.ended():
	default:
		t.Error("the connection has not ended")
	}
}

// A request of a device that has ended fails for that reason.
func TestTakeOverAfterDevice(t *testing.T) {
	h := newIdleHost()
	h.ended, h.handlers = verbs.ErrGone, nil
	if err := h.takeOver(1, newLink(h, idleQP{})); !errors.Is(err, verbs.ErrGone) {
		t.Errorf("%v, want the end of the device", err)
	}
}
