// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

// pausedDevice is a device on which a test acts while a connection is being made.
type pausedDevice struct {
	*cmpeer.LoopDevice
	ready, accept func(steps) error
	rejects       atomic.Int32  // calls of Reject
	rejection     chan struct{} // closed when a REJ is sent; the managers handle it before the next call
}

func (d *pausedDevice) OpenCM() (cm.Session, error) {
	s, err := d.LoopDevice.OpenCM()
	return &pausedSession{s, d}, err
}

// pausedSession connects as the session of a device in another process does: by one call.
type pausedSession struct {
	cm.Session
	dev *pausedDevice
}

func (s *pausedSession) ConnectReady(id cm.ID, qp verbs.QP, p cm.Path) error {
	return s.dev.ready(steps{qp, func() error { return p.Connect(qp) }, func() error { return s.Session.Ready(id, nil) }})
}

func (s *pausedSession) ConnectAccept(id cm.ID, qp verbs.QP, p cm.Path, private []byte) error {
	return s.dev.accept(steps{qp, func() error { return p.Connect(qp) }, func() error { return s.Session.Accept(id, p, private) }})
}

func (s *pausedSession) Hangup(id cm.ID, qp verbs.QP) error {
	_ = qp.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState)
	return s.Session.Disconnect(id, nil)
}

func (s *pausedSession) Reject(id cm.ID, private []byte) error {
	s.dev.rejects.Add(1)
	return s.Session.Reject(id, private)
}

// steps of a connection: connect brings the queue pair to RTS, finish sends the message of the communication manager.
type steps struct {
	qp              verbs.QP
	connect, finish func() error
}

// pause does the steps, and has end end the connection meanwhile.
type pause func(ctx context.Context, end func(), s steps) error

var pauses = map[string]pause{
	"before the queue pair is connected": func(ctx context.Context, end func(), s steps) error {
		end()
		for s.qp.State() != verbs.StateErr && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		return inOrder(s)
	},
	"after the queue pair is connected": func(_ context.Context, end func(), s steps) error {
		if err := s.connect(); err != nil {
			return err
		}
		end()
		return s.finish()
	},
}

// inOrder connects without a pause.
func inOrder(s steps) error {
	if err := s.connect(); err != nil {
		return err
	}
	return s.finish()
}

func openPaused(t *testing.T) *pausedDevice {
	dev := &pausedDevice{ready: inOrder, accept: inOrder, rejection: make(chan struct{})}
	rejected := sync.OnceFunc(func() { close(dev.rejection) })
	dev.LoopDevice = openLoop(t, cmpeer.Config{Drop: func(s cm.Send) bool {
		if s.MAD.Attr() == mad.AttrREJ {
			rejected()
		}
		return false
	}})
	return dev
}

// A peer that accepts a connection and closes it before it is made is the reason that the dialer gets, not the calls
// that fail because of that.
func TestPeerClosesWhileConnecting(t *testing.T) {
	for moment, pause := range pauses {
		for end, dial := range map[string]func(context.Context, verbs.Device, string) error{
			"Dial": func(ctx context.Context, dev verbs.Device, at string) error {
				_, err := rdma.Dial(ctx, dev, at)
				return err
			},
			"Connect": connectOwn,
		} {
			t.Run(end+" "+moment, func(t *testing.T) {
				dev, ctx := openPaused(t), testkit.Context(t)
				l := listen(t, dev, "127.0.0.1:0")
				accepted := make(chan *rdma.Conn, 1)
				go func() {
					c, err := l.Accept(ctx)
					if err != nil {
						t.Error(err)
					}
					accepted <- c
				}()
				dev.ready = func(s steps) error {
					return pause(ctx, func() {
						if err := (<-accepted).Close(); err != nil {
							t.Error(err)
						}
					}, s)
				}
				err := dial(ctx, dev, l.Addr().String())
				var rejected *rdma.RejectedError
				if !errors.As(err, &rejected) || rejected.Reason != mad.ReasonConsumer {
					t.Errorf("%v, want a rejection by the peer", err)
				}
			})
		}
	}
}

// connectOwn connects a queue pair of the application that is in INIT.
func connectOwn(ctx context.Context, dev verbs.Device, at string) error {
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	cq, err := dev.CreateCQ(16)
	if err != nil {
		return err
	}
	qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSend: 4, MaxRecv: 4})
	if err != nil {
		return err
	}
	if err := verbs.ToInit(qp, verbs.Endpoint{}, verbs.DefaultAttr()); err != nil {
		return err
	}
	_, err = rdma.Connect(ctx, dev, at, qp)
	return err
}

// A request whose peer gives up while it is accepted fails for that reason.
func TestPeerGivesUpWhileAccepting(t *testing.T) {
	for moment, pause := range pauses {
		t.Run(moment, func(t *testing.T) {
			dev, ctx := openPaused(t), testkit.Context(t)
			l := listen(t, dev, "127.0.0.1:0")
			dialing, giveUp := context.WithCancel(ctx)
			defer giveUp()
			go func() { _, _ = rdma.Dial(dialing, dev, l.Addr().String()) }()
			r := testkit.Must1(l.Next(ctx))(t)
			dev.accept = func(s steps) error {
				return pause(ctx, func() {
					giveUp()
					<-dev.rejection
				}, s)
			}
			_, err := r.Accept(ctx)
			var rejected *rdma.RejectedError
			if !errors.As(err, &rejected) || rejected.Reason != mad.ReasonTimeout {
				t.Errorf("%v, want a rejection by the peer", err)
			}
		})
	}
}

// An acceptance that fails at this end is rejected once, with a text for the peer.
func TestFailedAcceptance(t *testing.T) {
	dev, ctx := openPaused(t), testkit.Context(t)
	l := listen(t, dev, "127.0.0.1:0")
	dialed := make(chan error, 1)
	go func() {
		_, err := rdma.Dial(ctx, dev, l.Addr().String())
		dialed <- err
	}()
	r := testkit.Must1(l.Next(ctx))(t)
	broken := errors.New("broken")
	dev.accept = func(steps) error { return broken }
	if _, err := r.Accept(ctx); !errors.Is(err, broken) {
		t.Error(err)
	}
	if n := dev.rejects.Load(); n != 1 {
		t.Errorf("%d calls of Reject, want 1", n)
	}
	if err := testkit.Receive(t, "Dial returns", dialed); err == nil || !strings.Contains(err.Error(), "the server cannot connect its queue pair") {
		t.Error(err)
	}
}

// A connection that the peer ends before Dial returns was made: what the peer has sent is received.
func TestPeerClosesBeforeDialReturns(t *testing.T) {
	for name, dial := range map[string]func(context.Context, verbs.Device, string) error{"Dial": dialAndReceive, "Connect": connectOwn} {
		t.Run(name, func(t *testing.T) {
			dev, ctx := openPaused(t), testkit.Context(t)
			l := listen(t, dev, "127.0.0.1:0")
			accepted := make(chan *rdma.Conn, 1)
			go func() {
				c, err := l.Accept(ctx)
				if err != nil {
					t.Error(err)
				}
				accepted <- c
			}()
			dev.ready = func(s steps) error {
				if err := inOrder(s); err != nil {
					return err
				}
				c := <-accepted
				if name == "Dial" {
					if err := c.Send(ctx, []byte(lastWords)); err != nil {
						t.Error(err)
					}
				}
				_ = c.Close()
				testkit.Eventually(t, "the dialer sees the end", func() bool { return s.qp.State() == verbs.StateErr })
				return nil
			}
			if err := dial(ctx, dev, l.Addr().String()); err != nil {
				t.Error(err)
			}
		})
	}
}

const lastWords = "the last words"

// dialAndReceive receives lastWords, and then the end.
func dialAndReceive(ctx context.Context, dev verbs.Device, at string) error {
	c, err := rdma.Dial(ctx, dev, at)
	if err != nil {
		return err
	}
	defer c.Close()
	b := make([]byte, 100)
	if n, err := c.Recv(ctx, b); err != nil || string(b[:n]) != lastWords {
		return fmt.Errorf("received %q, %w", b[:n], err)
	}
	if n, err := c.Recv(ctx, b); !errors.Is(err, io.EOF) {
		return fmt.Errorf("received %d bytes, %w, want the end", n, err)
	}
	return nil
}
