// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func service(port uint16) mad.ServiceID { return mad.IPServiceID(mad.PortTCP, port) }

// established connects two managers, of which b listens.
func established(t *testing.T, a, b *manager, s mad.ServiceID) (idA, idB cm.ID) {
	t.Helper()
	idA, err := a.connectTo(s)
	if err != nil {
		t.Fatal(err)
	}
	e := b.want(cm.Request)
	e.Path.Local.QPN = b.qp.QPN()
	if err := b.Accept(e.ID, e.Path, nil); err != nil {
		t.Fatal(err)
	}
	a.want(cm.Reply)
	if err := a.Ready(idA, nil); err != nil {
		t.Fatal(err)
	}
	a.want(cm.Established)
	b.want(cm.Established)
	return idA, e.ID
}

// calls are all calls that name an ID.
func (m *manager) calls(id cm.ID) map[string]error {
	path := cm.Path{Local: verbs.Endpoint{QPN: m.qp.QPN()}}
	return map[string]error{
		"accept": m.Accept(id, path, nil), "ready": m.Ready(id, nil), "reject": m.Reject(id, nil), "disconnect": m.Disconnect(id, nil),
		"arrived": m.Arrived(id), "answer": m.Answer(id, m.qp.QPN(), 1, nil),
	}
}

// The next session of a process does not know the IDs of the one before, although they still exist: the
// connection is in timewait.
func TestIDsOfEarlierSession(t *testing.T) {
	_, dir := serve(t, device.Config{})
	a, b := manage(t, dir), manage(t, dir)
	if err := b.Listen(service(1), 0); err != nil {
		t.Fatal(err)
	}
	id, peer := established(t, a, b, service(1))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if e := b.want(cm.Disconnected); e.ID != peer { // and not only at the end of the process
		t.Errorf("%+v", e)
	}
	var err error
	if a.Session, err = a.d.OpenCM(); err != nil {
		t.Fatal(err)
	}
	for what, err := range a.calls(id) {
		if !errors.Is(err, cm.ErrID) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := a.connectTo(service(1)); err != nil {
		t.Fatal(err)
	}
	// The connection before may be gone before the request comes. Timewait begins at the same time at both ends.
	events := map[cm.Kind]bool{}
	for len(events) < 2 {
		e := testkit.Receive(t, "a request, and the end of the connection before", b.Events())
		if e.Kind != cm.Request && (e.Kind != cm.Gone || e.ID != peer) {
			t.Fatalf("%+v", e)
		}
		events[e.Kind] = true
	}
	select {
	case e := <-a.Events():
		t.Errorf("%+v: the session before had this ID", e)
	default:
	}
}

// timewait is how long an ID exists after the end of its connection, at least (cm.Config).
const timewait = 2 * time.Second

// refused makes all calls that are not allowed in a state. The ID exists until a time, if that is not zero.
func (m *manager) refused(state string, id cm.ID, until time.Time, allowed ...string) {
	m.t.Helper()
	path := cm.Path{Local: verbs.Endpoint{QPN: m.qp.QPN()}}
	for call, f := range map[string]func() error{
		"accept": func() error { return m.Accept(id, path, nil) }, "ready": func() error { return m.Ready(id, nil) },
		"reject": func() error { return m.Reject(id, nil) }, "disconnect": func() error { return m.Disconnect(id, nil) },
		"answer": func() error { return m.Answer(id, m.qp.QPN(), 1, nil) },
	} {
		if slices.Contains(allowed, call) {
			continue
		}
		err := f()
		gone := errors.Is(err, cm.ErrID) && !until.IsZero() && time.Now().After(until)
		if err == nil || errors.Is(err, cm.ErrID) && !gone {
			m.t.Errorf("%s, %s: %v", state, call, err)
		}
	}
}

// Calls in a wrong state get an error, and the state stays as it is.
func TestCallsInWrongStates(t *testing.T) {
	_, dir := serve(t, device.Config{})
	a, b := manage(t, dir), manage(t, dir)
	if err := b.Listen(service(1), 0); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	idA, err := a.connectTo(service(1))
	must(err)
	e := b.want(cm.Request)
	a.refused("REQ Sent", idA, time.Time{}, "disconnect")
	b.refused("REQ Rcvd", e.ID, time.Time{}, "accept", "reject", "disconnect")
	e.Path.Local.QPN = b.qp.QPN()
	must(b.Accept(e.ID, e.Path, nil))
	a.want(cm.Reply)
	b.refused("REP Sent", e.ID, time.Time{}, "disconnect")
	must(b.Arrived(e.ID))
	b.want(cm.Established)
	a.refused("REP Rcvd", idA, time.Time{}, "ready", "reject", "disconnect")
	must(a.Ready(idA, nil))
	a.want(cm.Established)
	a.refused("Established", idA, time.Time{}, "disconnect")
	b.refused("Established", e.ID, time.Time{}, "disconnect")
	must(a.Arrived(idA)) // it is allowed, and nothing happens
	until := time.Now().Add(timewait)
	must(a.Disconnect(idA, nil))
	a.want(cm.Disconnected)
	b.want(cm.Disconnected)
	a.refused("Timewait", idA, until)
	b.refused("Timewait", e.ID, until)
	a.want(cm.Gone)
	b.want(cm.Gone)
	for _, errs := range []map[string]error{a.calls(idA), b.calls(e.ID)} {
		for what, err := range errs {
			if !errors.Is(err, cm.ErrID) {
				t.Errorf("gone, %s: %v", what, err)
			}
		}
	}
}

// Private data that no message has room for, and more READs than the peer takes, are refused, and the
// call may be repeated with less.
func TestTooMuchInCalls(t *testing.T) {
	_, dir := serve(t, device.Config{})
	a, b := manage(t, dir), manage(t, dir)
	if err := b.Listen(service(1), 0); err != nil {
		t.Fatal(err)
	}
	long := make([]byte, 225)
	refused := func(what string, bad, good error) {
		t.Helper()
		if bad == nil || errors.Is(bad, cm.ErrID) || good != nil {
			t.Errorf("%s with too much: %v; then with less: %v", what, bad, good)
		}
	}
	idA, err := a.connectTo(service(1))
	if err != nil {
		t.Fatal(err)
	}
	e := b.want(cm.Request)
	e.Path.Local.QPN = b.qp.QPN()
	refused("reject", b.Reject(e.ID, long), nil)
	reads := e.Path
	reads.Attr.MaxRdAtomic = 255
	refused("accept", b.Accept(e.ID, reads, nil), nil)
	refused("accept", b.Accept(e.ID, e.Path, long), b.Accept(e.ID, e.Path, nil))
	a.want(cm.Reply)
	refused("ready", a.Ready(idA, long), a.Ready(idA, nil))
	a.want(cm.Established)
	refused("disconnect", a.Disconnect(idA, long), a.Disconnect(idA, nil))
	a.want(cm.Disconnected)
}

// A resolution is answered or rejected once.
func TestResolutionOverSocket(t *testing.T) {
	_, dir := serve(t, device.Config{})
	a, b := manage(t, dir), manage(t, dir)
	if err := b.Listen(service(1), 0); err != nil {
		t.Fatal(err)
	}
	p := cm.ResolveParams{Local: here, Peer: here, Service: service(1)}
	for _, reject := range []bool{false, true} {
		id, err := a.Resolve(p)
		if err != nil {
			t.Fatal(err)
		}
		e := b.want(cm.ResolveRequest)
		if err := b.Answer(e.ID, b.qp.QPN(), 1, make([]byte, 200)); err == nil {
			t.Error("200 bytes of private data")
		}
		if err := b.Accept(e.ID, cm.Path{Local: verbs.Endpoint{QPN: b.qp.QPN()}}, nil); err == nil || errors.Is(err, cm.ErrID) {
			t.Errorf("a resolution was accepted: %v", err)
		}
		want := cm.Resolved
		if reject {
			want, err = cm.Failed, b.Reject(e.ID, nil)
		} else {
			err = b.Answer(e.ID, b.qp.QPN(), 77, []byte("text"))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Answer(e.ID, b.qp.QPN(), 77, nil); !errors.Is(err, cm.ErrID) && err == nil {
			t.Errorf("a second answer: %v", err)
		}
		b.want(cm.Gone)
		got := a.want(want)
		if got.ID != id || !reject && (got.Path.Remote.QPN != b.qp.QPN() || got.Path.Remote.QKey != 77) {
			t.Errorf("%+v", got)
		}
		a.want(cm.Gone)
	}
}

// What is refused by the manager does not count.
func TestRefusedCallsDoNotCount(t *testing.T) {
	l := limits.Defaults()
	l.Process[limits.Connections], l.Process[limits.Listeners] = 1, 1
	_, dir := serve(t, device.Config{Limits: &l})
	a, b := manage(t, dir), manage(t, dir)
	if err := a.Listen(service(1), 0); err != nil {
		t.Fatal(err)
	}
	six := netip.MustParseAddr("::1")
	for range 3 {
		if err := b.Listen(service(1), 0); !errors.Is(err, cm.ErrInUse) {
			t.Errorf("a listener of another: %v", err)
		}
		p := cm.ConnectParams{Local: here, Peer: six, Service: service(1), QPN: b.qp.QPN(), Attr: verbs.DefaultAttr()}
		if _, err := b.Connect(p); err == nil || errors.Is(err, proto.ErrLimit) {
			t.Errorf("from IPv4 to IPv6: %v", err)
		}
		if _, err := b.Resolve(cm.ResolveParams{Local: here, Peer: six, Service: service(1)}); err == nil || errors.Is(err, proto.ErrLimit) {
			t.Errorf("from IPv4 to IPv6: %v", err)
		}
		if err := b.Unlisten(service(1)); err == nil {
			t.Error("the listener of another was ended")
		}
	}
	if err := b.Listen(service(2), 0); err != nil {
		t.Error(err)
	}
	if _, err := b.Resolve(cm.ResolveParams{Local: here, Peer: here, Service: service(1)}); err != nil {
		t.Error(err)
	}
	a.want(cm.ResolveRequest)
}

// The number of a queue pair that the process has destroyed is not one of the process.
func TestDestroyedQueuePair(t *testing.T) {
	_, dir := serve(t, device.Config{})
	a, b := manage(t, dir), manage(t, dir)
	if err := b.Listen(service(1), 0); err != nil {
		t.Fatal(err)
	}
	_, peer := established(t, a, b, service(1))
	if err := b.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	if e := b.want(cm.Disconnected); e.ID != peer { // the connection of the queue pair has ended
		t.Errorf("%+v", e)
	}
	a.want(cm.Disconnected)
	p := cm.ConnectParams{Local: here, Peer: here, Service: service(1), QPN: b.qp.QPN(), Attr: verbs.DefaultAttr()}
	if _, err := b.Connect(p); !errors.Is(err, proto.ErrHandle) {
		t.Errorf("%v", err)
	}
}

// A listener keeps 1024 requests, whatever it asks for.
func TestLongestBacklog(t *testing.T) {
	const most, more = 1024, 1100
	_, dir := serve(t, device.Config{})
	a := manage(t, dir)
	for port, backlog := range map[uint16]int{1: 1 << 30, 2: 5} {
		if err := a.Listen(service(port), backlog); err != nil {
			t.Fatal(err)
		}
	}
	ends := []*manager{manage(t, dir), manage(t, dir)}
	requested := make(chan error, len(ends))
	// A request is kept for AnswerTimeout, however slow this machine is: all is made before, and they come at the same time.
	queues := map[*manager][]verbs.QP{}
	for _, e := range ends {
		for range more / len(ends) {
			queues[e] = append(queues[e], e.queuePair())
		}
	}
	for _, e := range ends {
		go func() {
			var err error
			for _, q := range queues[e] {
				if _, err = e.connectWith(q, service(1)); err != nil {
					break
				}
			}
			requested <- err
		}()
	}
	for range most { // the process takes its events, which have a limit too
		a.want(cm.Request)
	}
	for range ends {
		if err := <-requested; err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ends[0].connectTo(service(2)); err != nil {
		t.Fatal(err)
	}
	if e := a.want(cm.Request); e.Service != service(2) { // events come in the order of the requests
		t.Errorf("more than %d requests", most)
	}
}

// The end of a process is the end of its session: requests that it has not answered are rejected, and
// its listeners are free.
func TestEndOfProcessEndsSession(t *testing.T) {
	_, dir := serve(t, device.Config{})
	a, b := manage(t, dir), manage(t, dir)
	if err := a.Listen(service(1), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := b.connectTo(service(1)); err != nil {
		t.Fatal(err)
	}
	a.want(cm.Request)
	if err := a.d.Close(); err != nil {
		t.Fatal(err)
	}
	var rejected *cm.RejectedError
	if e := b.want(cm.Failed); !errors.As(e.Err, &rejected) || rejected.Reason != mad.ReasonConsumer {
		t.Errorf("%+v", e)
	}
	if err := b.Listen(service(1), 0); err != nil {
		t.Error(err)
	}
}
