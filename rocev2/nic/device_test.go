// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Close returns when the device is closed, also to the one who calls it second.
func TestCloseWaits(t *testing.T) {
	closing := verbs.ErrClosed
	d := &Device{eng: &runner{}, done: make(chan struct{}), events: make(chan verbs.Event), dataplane: closedWire{}}
	d.err.Store(&closing)
	returned := make(chan struct{})
	go func() { _ = d.Close(); close(returned) }()
	select {
	case <-returned:
		t.Error("Close returned while the device was still closing")
	case <-time.After(50 * time.Millisecond):
	}
	close(d.done)
	<-returned
}

type closedWire struct{ Dataplane }

func (closedWire) Close() error { return nil }

// fullWire has no room for another queue pair.
type fullWire struct{ closedWire }

var errFull = errors.New("no room")

func (fullWire) RuntimeConfig() RuntimeConfig { return RuntimeConfig{} }
func (fullWire) Steer(uint32) error           { return errFull }
func (fullWire) Unsteer(uint32) error         { return nil }

// A queue pair that ingress cannot be told of is not there, and the error says no
// more than that.
func TestNoRoomToSteer(t *testing.T) {
	d := &Device{dataplane: fullWire{}, done: make(chan struct{}), events: make(chan verbs.Event, 1)}
	var err error
	if d.mem, err = mr.New(mr.Config{}); err != nil {
		t.Fatal(err)
	}
	e, err := newRunner(d)
	if err != nil {
		t.Fatal(err)
	}
	d.eng = e
	e.start()
	defer d.Close()
	pd, _ := d.AllocPD()
	cq, _ := d.CreateCQ(1)
	_, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
	if !errors.Is(err, errFull) || strings.Contains(err.Error(), "nil") {
		t.Errorf("%v", err)
	}
	if err := errors.Join(cq.Destroy(), pd.Free()); err != nil {
		t.Error(err)
	}
}

// The error of a neighbour that does not answer is the same whether the kernel gives up first, as a rule, or
// Options.ResolveTimeout ends first.
func TestUnanswered(t *testing.T) {
	d := &Device{opts: Options{}.withDefaults()}
	if d.opts.ResolveTimeout <= 3*time.Second {
		t.Errorf("the kernel takes longer than %v", d.opts.ResolveTimeout)
	}
	err := d.unanswered("eth7", peer, fmt.Errorf("route: %w (%w)", context.DeadlineExceeded, route.ErrPending))
	const want = "nic: neighbour 10.0.0.2 on eth7: the neighbour does not answer within 4s; is it up, and in the same network?"
	if err.Error() != want || !errors.Is(err, route.ErrNeighbour) {
		t.Errorf("%v", err)
	}
	if err := d.unanswered("eth7", peer, route.ErrNoRoute); err.Error() != "nic: no route" || !errors.Is(err, route.ErrNoRoute) {
		t.Errorf("%v", err)
	}
}

// An engine with nothing to come sleeps for as long as it takes to look at its sockets:
// run does that after a whole maxSleep only.
func TestIdleSleep(t *testing.T) {
	e := bench(t)
	e.core.Begin(1e9)
	if d := e.untilNext(1e9 + 500); d != maxSleep {
		t.Errorf("%v", d)
	}
}

// bench is the runner of a loopback device whose threads do not run.
func bench(t *testing.T) *runner {
	t.Helper()
	d := &Device{dataplane: noDataplane{}, events: make(chan verbs.Event, eventBacklog)}
	var err error
	if d.eng, err = newRunner(d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.eng.driver.Close() })
	return d.eng
}

func TestLargeDSCPOption(t *testing.T) {
	for _, o := range []Options{{LargeDSCP: 8}, {PreCredit: true, LargeDSCP: 64}} {
		if o.check() == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if err := (Options{PreCredit: true, LargeDSCP: 63}).check(); err != nil {
		t.Error(err)
	}
}
