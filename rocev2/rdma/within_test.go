// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

// stoppable is a device whose calls wait while it is stopped, as those of an agent do.
type stoppable struct {
	*cmpeer.LoopDevice
	gate sync.RWMutex // locked while it is stopped
}

// pass waits while the device is stopped.
func (d *stoppable) pass() {
	d.gate.RLock()
	defer d.gate.RUnlock()
}

func (d *stoppable) Port() (verbs.Port, error) { d.pass(); return d.LoopDevice.Port() }

func (d *stoppable) AllocPD() (verbs.PD, error) {
	d.pass()
	p, err := d.LoopDevice.AllocPD()
	return stoppablePD{p, d}, err
}

func (d *stoppable) CreateCQ(n int) (verbs.CQ, error) { d.pass(); return d.LoopDevice.CreateCQ(n) }

func (d *stoppable) OpenCM() (cm.Session, error) {
	d.pass()
	s, err := d.LoopDevice.OpenCM()
	return stoppableSession{s, d}, err
}

type stoppablePD struct {
	verbs.PD
	d *stoppable
}

func (p stoppablePD) CreateQP(i verbs.QPInit) (verbs.QP, error) {
	p.d.pass()
	q, err := p.PD.CreateQP(i)
	return stoppableQP{q, p.d}, err
}

func (p stoppablePD) RegMR(b []byte, a verbs.Access) (verbs.MR, error) {
	p.d.pass()
	m, err := p.PD.RegMR(b, a)
	return stoppableMR{m, p.d}, err
}

type stoppableQP struct {
	verbs.QP
	d *stoppable
}

func (q stoppableQP) Modify(a verbs.Attr, m verbs.AttrMask) error {
	q.d.pass()
	return q.QP.Modify(a, m)
}
func (q stoppableQP) Destroy() error { q.d.pass(); return q.QP.Destroy() }

type stoppableMR struct {
	verbs.MR
	d *stoppable
}

func (m stoppableMR) Deregister() error { m.d.pass(); return m.MR.Deregister() }

type stoppableSession struct {
	cm.Session
	d *stoppable
}

func (s stoppableSession) Listen(id mad.ServiceID, n int) error {
	s.d.pass()
	return s.Session.Listen(id, n)
}
func (s stoppableSession) Unlisten(id mad.ServiceID) error { s.d.pass(); return s.Session.Unlisten(id) }
func (s stoppableSession) Connect(p cm.ConnectParams) (cm.ID, error) {
	s.d.pass()
	return s.Session.Connect(p)
}
func (s stoppableSession) Resolve(p cm.ResolveParams) (cm.ID, error) {
	s.d.pass()
	return s.Session.Resolve(p)
}
func (s stoppableSession) Accept(id cm.ID, p cm.Path, b []byte) error {
	s.d.pass()
	return s.Session.Accept(id, p, b)
}
func (s stoppableSession) Ready(id cm.ID, b []byte) error { s.d.pass(); return s.Session.Ready(id, b) }
func (s stoppableSession) Reject(id cm.ID, b []byte) error {
	s.d.pass()
	return s.Session.Reject(id, b)
}
func (s stoppableSession) Disconnect(id cm.ID, b []byte) error {
	s.d.pass()
	return s.Session.Disconnect(id, b)
}

// Every method with a context returns when it ends, and Close within its limit, while the device does not answer.
// What they have begun ends when it does.
func TestStoppedDevice(t *testing.T) {
	d := &stoppable{LoopDevice: openLoop(t, cmpeer.Config{})}
	a, b := connect(t, d)
	l, err := rdma.Listen(testkit.Context(t), d, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	q, own := newOwn(t, d).qp, newOwnOf(t, d, verbs.QPInit{Type: verbs.UD}).qp
	dialed := make(chan error, 1)
	ctx := testkit.Context(t)
	go func() {
		c, err := rdma.Dial(ctx, d, l.Addr().String())
		if err == nil {
			_ = c.Close()
		}
		dialed <- err
	}()
	r, err := l.Next(testkit.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	d.gate.Lock()
	long := make([]byte, a.MaxMessage())
	for name, call := range map[string]func(ctx context.Context) error{
		"Dial":     func(ctx context.Context) error { _, err := rdma.Dial(ctx, d, l.Addr().String()); return err },
		"Connect":  func(ctx context.Context) error { _, err := rdma.Connect(ctx, d, l.Addr().String(), q); return err },
		"Listen":   func(ctx context.Context) error { _, err := rdma.Listen(ctx, d, "127.0.0.1:0"); return err },
		"Accept":   func(ctx context.Context) error { _, err := r.Accept(ctx); return err },
		"Resolve":  func(ctx context.Context) error { _, err := rdma.Resolve(ctx, d, "127.0.0.1:9"); return err },
		"Announce": func(ctx context.Context) error { _, err := rdma.Announce(ctx, d, "127.0.0.1:9", own, 1); return err },
		"Send":     func(ctx context.Context) error { return a.Send(ctx, long) },
		"Write":    func(ctx context.Context) error { return a.Write(ctx, long, rdma.Remote{Len: uint64(len(long))}) },
		"Read":     func(ctx context.Context) error { return a.Read(ctx, long, rdma.Remote{Len: uint64(len(long))}) },
	} {
		ctx, cancel := context.WithTimeout(testkit.Context(t), 50*time.Millisecond)
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		select {
		case err := <-done:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(testkit.Patience):
			t.Errorf("%s does not return", name)
		}
		cancel()
	}
	var closing sync.WaitGroup
	for name, end := range map[string]func() error{"Conn": b.Close, "Listener": l.Close} {
		closing.Go(func() {
			if err := end(); !errors.Is(err, rdma.ErrNoAnswer) {
				t.Errorf("Close of a %s: %v", name, err)
			}
		})
	}
	closing.Wait()
	d.gate.Unlock()
	_ = a.Close()
	<-dialed // the peer has rejected or closed it
	testkit.Eventually(t, "all buffers are freed", func() bool { return d.Allocated() == 0 })
}

// A queue pair fails without a reason, and the device, which is asked for it, does not answer: who waits returns all
// the same, and gets the failure when the device answers.
func TestFailureOfStoppedDevice(t *testing.T) {
	d := &stoppable{LoopDevice: openLoop(t, cmpeer.Config{})}
	a, b := connect(t, d)
	defer b.Close()
	d.gate.Lock()
	if err := a.QP().(stoppableQP).QP.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(testkit.Context(t), 50*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := a.Recv(ctx, make([]byte, 10))
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(testkit.Patience):
		t.Error("Recv does not return")
	}
	d.gate.Unlock()
	if _, err := a.Recv(testkit.Context(t), make([]byte, 10)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the failure: %v", err)
	}
	_ = a.Close()
}

// A Dial whose context has ended asks the peer for nothing when the device answers.
func TestDialOfStoppedDevice(t *testing.T) {
	d := &stoppable{LoopDevice: openLoop(t, cmpeer.Config{})}
	l := listen(t, d, "127.0.0.1:0")
	d.gate.Lock()
	ctx, cancel := context.WithTimeout(testkit.Context(t), 50*time.Millisecond)
	defer cancel()
	if _, err := rdma.Dial(ctx, d, l.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	d.gate.Unlock()
	ctx, cancel = context.WithTimeout(testkit.Context(t), 300*time.Millisecond)
	defer cancel()
	if r, err := l.Next(ctx); err == nil {
		t.Errorf("a request from %v", r)
	}
}

// entered is a stoppable device that reports its first AllocPD.
type entered struct {
	*stoppable
	once sync.Once
	in   chan struct{} // closed by the first AllocPD
}

func (d *entered) AllocPD() (verbs.PD, error) {
	d.once.Do(func() { close(d.in) })
	return d.stoppable.AllocPD()
}

// While a device does not answer the first Dial over it, connections over another device are made.
func TestDialOverOtherDevice(t *testing.T) {
	d := &entered{stoppable: &stoppable{LoopDevice: openLoop(t, cmpeer.Config{})}, in: make(chan struct{})}
	d.gate.Lock()
	ctx, cancel := context.WithCancel(testkit.Context(t))
	dialed := make(chan error, 1)
	go func() {
		_, err := rdma.Dial(ctx, d, "127.0.0.1:9")
		dialed <- err
	}()
	<-d.in
	other := openLoop(t, cmpeer.Config{})
	l, err := rdma.Listen(testkit.Context(t), other, "127.0.0.1:0")
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Errorf("over the other device: %v", err)
	}
	cancel()
	if err := <-dialed; !errors.Is(err, context.Canceled) {
		t.Errorf("over the stopped device: %v", err)
	}
	d.gate.Unlock()
}

// slowListen is a device that answers Listen of a session late.
type slowListen struct {
	*cmpeer.LoopDevice
	answer chan struct{}
}

func (d *slowListen) OpenCM() (cm.Session, error) {
	s, err := d.LoopDevice.OpenCM()
	return slowListenSession{s, d}, err
}

type slowListenSession struct {
	cm.Session
	d *slowListen
}

func (s slowListenSession) Listen(id mad.ServiceID, n int) error {
	err := s.Session.Listen(id, n)
	<-s.d.answer
	return err
}

// A Listen whose context has ended has its port until the device answers, and no longer.
func TestLateListen(t *testing.T) {
	d := &slowListen{LoopDevice: openLoop(t, cmpeer.Config{}), answer: make(chan struct{})}
	const address = "127.0.0.1:9"
	listen := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(testkit.Context(t), limit)
		defer cancel()
		l, err := rdma.Listen(ctx, d, address)
		if err == nil {
			err = l.Close()
		}
		return err
	}
	testkit.Eventually(t, "the address is in use before the answer", func() bool { // the first ones may have ended before the device was asked
		return errors.Is(listen(50*time.Millisecond), cm.ErrInUse)
	})
	close(d.answer)
	testkit.Eventually(t, "the address is free after the answer", func() error { return listen(testkit.Patience) })
}
