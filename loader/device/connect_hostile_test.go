// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"errors"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// manager is the session of a process.
type manager struct {
	t testing.TB
	*end
	cm.Session
	d *client.Device
}

func manage(t testing.TB, dir string) *manager {
	t.Helper()
	d := open(t, dir)
	s, err := d.OpenCM()
	if err != nil {
		t.Fatal(err)
	}
	return &manager{t, newEnd(t, d, 4096, verbs.QPInit{Type: verbs.RC}), s, d}
}

var somewhere = mad.IPServiceID(mad.PortTCP, 7174)

// queuePair makes a queue pair that can be connected.
func (m *manager) queuePair() verbs.QP {
	m.t.Helper()
	return testkit.Must1(m.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: m.cq, RecvCQ: m.cq}))(m.t)
}

// connectTo begins a connection of a new queue pair.
func (m *manager) connectTo(service mad.ServiceID) (cm.ID, error) {
	m.t.Helper()
	return m.connectWith(m.queuePair(), service)
}

// connectWith begins a connection of a queue pair.
func (m *manager) connectWith(q verbs.QP, service mad.ServiceID) (cm.ID, error) {
	return m.Connect(cm.ConnectParams{Local: here, Peer: here, Service: service, QPN: q.QPN(), PSN: 5, Attr: verbs.DefaultAttr()})
}

// want returns the next event, which must be of a kind.
func (m *manager) want(k cm.Kind) cm.Event {
	m.t.Helper()
	e := testkit.Receive(m.t, k.String(), m.Events())
	if e.Kind != k {
		m.t.Fatalf("the event is %+v, not %s", e, k)
	}
	return e
}

// IDs, listeners and queue pairs of other processes are refused, and their owners are not disturbed.
func TestForeignConnections(t *testing.T) {
	_, dir := serve(t, device.Config{})
	a, b, evil := manage(t, dir), manage(t, dir), manage(t, dir)
	if err := a.Listen(somewhere, 0); err != nil {
		t.Fatal(err)
	}
	active, err := b.connectTo(somewhere)
	if err != nil {
		t.Fatal(err)
	}
	request := a.want(cm.Request)
	foreign := request.Path
	foreign.Local.QPN = evil.qp.QPN()
	params := cm.ConnectParams{Local: here, Peer: here, Service: somewhere, QPN: a.qp.QPN(), Attr: verbs.DefaultAttr()}
	_, connectErr := evil.Connect(params)
	for what, x := range map[string]struct{ got, want error }{
		"accept with the queue pair of another":  {a.Accept(request.ID, foreign, nil), proto.ErrHandle},
		"connect with the queue pair of another": {connectErr, proto.ErrHandle},
		"answer with the queue pair of another":  {a.Answer(request.ID, evil.qp.QPN(), 1, nil), proto.ErrHandle},
		"accept":                                 {evil.Accept(request.ID, foreign, nil), cm.ErrID},
		"reject":                                 {evil.Reject(request.ID, nil), cm.ErrID},
		"ready":                                  {evil.Ready(active, nil), cm.ErrID},
		"disconnect":                             {evil.Disconnect(active, nil), cm.ErrID},
		"arrived":                                {evil.Arrived(request.ID), cm.ErrID},
		"answer":                                 {evil.Answer(request.ID, evil.qp.QPN(), 1, nil), cm.ErrID},
		"listen":                                 {evil.Listen(somewhere, 0), cm.ErrInUse},
	} {
		if !errors.Is(x.got, x.want) {
			t.Errorf("%s: %v, want %v", what, x.got, x.want)
		}
	}
	if err := evil.Unlisten(somewhere); err == nil {
		t.Error("a process ended the listener of another")
	}
	own := request.Path
	own.Local.QPN = a.qp.QPN()
	if err := a.Accept(request.ID, own, []byte("welcome")); err != nil {
		t.Fatal(err)
	}
	if e := b.want(cm.Reply); string(e.Private[:7]) != "welcome" || e.Path.Remote.QPN != a.qp.QPN() {
		t.Errorf("%+v", e)
	}
	if err := b.Ready(active, nil); err != nil {
		t.Fatal(err)
	}
	a.want(cm.Established)
	b.want(cm.Established)
	if err := evil.d.Close(); err != nil {
		t.Error(err)
	}
	if err := b.Disconnect(active, nil); err != nil {
		t.Fatal(err)
	}
	a.want(cm.Disconnected)
	b.want(cm.Disconnected)
}

// A session that was closed has ended its listeners and connections, and the next one knows nothing
// of them.
func TestSessionCloses(t *testing.T) {
	_, dir := serve(t, device.Config{})
	a, b := manage(t, dir), manage(t, dir)
	if _, err := a.d.OpenCM(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a second session: %v", err)
	}
	if err := a.Listen(somewhere, 0); err != nil {
		t.Fatal(err)
	}
	id, err := b.connectTo(somewhere)
	if err != nil {
		t.Fatal(err)
	}
	request := a.want(cm.Request)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, open := <-a.Events(); open {
		t.Error("an event after Close")
	}
	if err := a.Listen(somewhere, 0); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("a call after Close: %v", err)
	}
	var rejected *cm.RejectedError
	if e := b.want(cm.Failed); e.ID != id || !errors.As(e.Err, &rejected) || rejected.Reason != mad.ReasonConsumer {
		t.Errorf("%+v", e)
	}
	b.want(cm.Gone)
	if a.Session, err = a.d.OpenCM(); err != nil {
		t.Fatal(err)
	}
	if err := a.Reject(request.ID, nil); !errors.Is(err, cm.ErrID) {
		t.Errorf("the ID of a session that was closed: %v", err)
	}
	if err := a.Listen(somewhere, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := b.connectTo(somewhere); err != nil {
		t.Fatal(err)
	}
	if e := a.want(cm.Request); e.ID == request.ID {
		t.Errorf("%+v", e)
	}
}

// Connections and listeners of a process and of a user have limits, and count until they are gone.
func TestConnectionLimits(t *testing.T) {
	l := limits.Defaults()
	l.Process[limits.Connections], l.Process[limits.Listeners] = 3, 2
	_, dir := serve(t, device.Config{Limits: &l})
	a, b, c := manage(t, dir), manage(t, dir), manage(t, dir)
	for _, port := range []uint16{1, 2, 3} {
		if err := a.Listen(mad.IPServiceID(mad.PortTCP, port), 0); errors.Is(err, proto.ErrLimit) != (port == 3) {
			t.Fatalf("listener %d: %v", port, err)
		}
	}
	service := mad.IPServiceID(mad.PortTCP, 1)
	var ids []cm.ID
	for range 3 {
		if _, err := b.connectTo(service); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, a.want(cm.Request).ID)
	}
	if _, err := b.connectTo(service); !errors.Is(err, proto.ErrLimit) {
		t.Fatalf("connection 4: %v", err)
	}
	if _, err := c.connectTo(service); err != nil { // one too many for a
		t.Fatal(err)
	}
	var rejected *cm.RejectedError
	if e := c.want(cm.Failed); !errors.As(e.Err, &rejected) {
		t.Errorf("%+v", e)
	}
	for _, id := range ids {
		if err := a.Reject(id, nil); err != nil {
			t.Fatal(err)
		}
		a.want(cm.Gone)
		b.want(cm.Failed)
		b.want(cm.Gone)
	}
	if _, err := b.connectTo(service); err != nil {
		t.Errorf("after the end of the others: %v", err)
	}
	a.want(cm.Request)
	if err := a.Unlisten(service); err != nil {
		t.Fatal(err)
	}
	if err := a.Listen(mad.IPServiceID(mad.PortTCP, 3), 0); err != nil {
		t.Errorf("a listener after the end of another: %v", err)
	}
}

// What no client sends gets an error, and the connection goes on.
func TestWrongConnectionMessages(t *testing.T) {
	_, dir := serve(t, device.Config{})
	r := dial(t, dir).hello()
	check := func(what string, t2 proto.Type, request any, want error) {
		t.Helper()
		if _, err := r.call(t2, request, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	tooLong := proto.CMPrivate{Len: proto.CMPrivateBytes + 1}
	check("before the session", proto.TCMListen, &proto.CMListen{Service: 1}, proto.ErrProtocol)
	check("close before the session", proto.TCMClose, nil, proto.ErrProtocol)
	if _, err := r.call(proto.TCMOpen, nil, nil); err != nil {
		t.Fatal(err)
	}
	check("a second session", proto.TCMOpen, nil, verbs.ErrBusy)
	check("private data of a connect", proto.TCMConnect, &proto.CMConnect{Private: tooLong}, proto.ErrProtocol)
	check("private data of an accept", proto.TCMAccept, &proto.CMAccept{Private: tooLong}, proto.ErrProtocol)
	check("private data of a reject", proto.TCMReject, &proto.CMCall{Private: tooLong}, proto.ErrProtocol)
	check("private data of a resolve", proto.TCMResolve, &proto.CMResolve{Private: tooLong}, proto.ErrProtocol)
	check("private data of an answer", proto.TCMAnswer, &proto.CMAnswer{Private: tooLong}, proto.ErrProtocol)
	check("a wrong length", proto.TCMAccept, &proto.Handle{}, proto.ErrProtocol)
	check("an event", proto.TCMEvent, nil, proto.ErrProtocol)
	check("queue pair 0", proto.TCMConnect, &proto.CMConnect{}, proto.ErrHandle)
	if _, err := r.call(proto.TCMListen, &proto.CMListen{Service: 1, Backlog: -5}, nil); err != nil {
		t.Error(err)
	}
	check("the same again", proto.TCMListen, &proto.CMListen{Service: 1}, cm.ErrInUse)
}
