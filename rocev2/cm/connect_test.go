// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A connection from Connect to Gone, over IPv4 and IPv6.
func TestConnectAndDisconnect(t *testing.T) {
	for _, addrs := range [][2]netip.Addr{{addrA, addrB}, {addr6A, addr6B}} {
		w := newWorld(t, 1, nil)
		w.listen(0)
		p := params()
		p.Local, p.Peer = addrs[0], addrs[1]
		id := w.connect(p)
		w.run(time.Minute)
		w.want(w.a, id, Reply, Established)
		w.want(w.b, 0, Request, Established)

		req := w.b.the(t, Request)
		if req.Service != service || req.SrcPort != 5555 || string(req.Private[:6]) != "hello\x00" || len(req.Private) != 56 {
			t.Errorf("request %+v", req)
		}
		rep := w.a.the(t, Reply)
		if string(rep.Private[:9]) != "accepted\x00" {
			t.Errorf("private data of the reply %q", rep.Private)
		}
		if e := w.b.the(t, Established); string(e.Private[:6]) != "ready\x00" {
			t.Errorf("private data of ready %q", e.Private)
		}
		checkPaths(t, rep.Path, req.Path, addrs)

		if err := w.a.Disconnect(w.now, id, []byte("bye")); err != nil {
			t.Fatal(err)
		}
		w.run(time.Minute)
		w.want(w.a, id, Reply, Established, Disconnected, Gone)
		w.want(w.b, 0, Request, Established, Disconnected, Gone)
		if e := w.b.the(t, Disconnected); e.Err != nil || string(e.Private[:4]) != "bye\x00" {
			t.Errorf("disconnected %v %q", e.Err, e.Private)
		}
		if w.a.Len()+w.b.Len() != 0 || w.a.Counters() != (Counters{}) || w.b.Counters() != (Counters{}) {
			t.Errorf("left: %d, %d, %+v, %+v", w.a.Len(), w.b.Len(), w.a.Counters(), w.b.Counters())
		}
	}
}

// checkPaths compares what both ends tell their queue pairs. a wanted 4 outstanding READs and
// serves 8.
func checkPaths(t *testing.T, a, b Path, addrs [2]netip.Addr) {
	t.Helper()
	// Each end chooses with which number the other starts.
	endA := verbs.Endpoint{Addr: addrs[0], QPN: 0x55, PSN: 0x222222}
	endB := verbs.Endpoint{Addr: addrs[1], QPN: 0x11, PSN: 0x111111}
	if a.Local != endA || a.Remote != endB || a.Type != verbs.RC {
		t.Errorf("path of the active end %+v", a)
	}
	endA.PSN, endB.QPN = 0, 0 // the application sets them
	if b.Remote != endA || b.Local != endB || b.Type != verbs.RC {
		t.Errorf("path of the passive end %+v", b)
	}
	want := verbs.DefaultAttr()
	want.MaxRdAtomic, want.MaxDestRdAtomic = 8, 4
	if b.Attr != want {
		t.Errorf("attributes of the passive end %+v, want %+v", b.Attr, want)
	}
	want.MaxRdAtomic, want.MaxDestRdAtomic = 4, 8
	if a.Attr != want {
		t.Errorf("attributes of the active end %+v, want %+v", a.Attr, want)
	}
}

// queuePair is a verbs.Modifier that notes its states.
type queuePair struct {
	t     verbs.QPType
	state verbs.State
	attr  verbs.Attr
}

func (q *queuePair) Type() verbs.QPType { return q.t }
func (q *queuePair) State() verbs.State { return q.state }
func (q *queuePair) Modify(a verbs.Attr, mask verbs.AttrMask) error {
	if mask&^verbs.RequiredMask(q.t, a.State) != 0 {
		return errors.New("more than the transition takes")
	}
	q.state, q.attr = a.State, a
	return nil
}

func TestPathConnects(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.listen(0)
	w.connect(params())
	w.run(time.Minute)
	q := &queuePair{t: verbs.RC}
	if err := w.a.the(t, Reply).Path.Connect(q); err != nil || q.state != verbs.StateRTS {
		t.Fatal(q.state, err)
	}
	if q.attr.DestQPN != 0x11 || q.attr.RQPSN != 0x111111 || q.attr.SQPSN != 0x222222 || q.attr.AV.Dst != addrB {
		t.Errorf("attributes %+v", q.attr)
	}
}

// What both ends want is negotiated: each gets at most what the other serves.
func TestNegotiation(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.listen(0)
	w.b.auto = false
	p := params()
	p.Attr.MaxRdAtomic, p.Attr.MaxDestRdAtomic = 16, 2
	p.Attr.RetryCnt, p.Attr.RNRRetry, p.Attr.Timeout, p.Attr.PMTU, p.Attr.AV.TClass = 3, 5, 20, rocev2.PMTU4096, 0x1a
	id := w.connect(p)
	w.run(time.Second / 2)
	path := w.b.the(t, Request).Path
	want := verbs.DefaultAttr()
	want.MaxRdAtomic, want.MaxDestRdAtomic, want.RetryCnt, want.RNRRetry, want.Timeout, want.PMTU = 2, 16, 3, 5, 20, rocev2.PMTU4096
	want.AV.TClass = 0x1a
	if path.Attr != want {
		t.Errorf("request %+v, want %+v", path.Attr, want)
	}
	path.Local.QPN, path.Remote.PSN = 0x99, 7
	reqID := w.b.the(t, Request).ID
	for change, bad := range map[string]func(*Path){
		"QPN 0x1": func(p *Path) { p.Local.QPN = 1 }, "PSN 0x1000000": func(p *Path) { p.Remote.PSN = 1 << 24 },
		"MaxRdAtomic 3": func(p *Path) { p.Attr.MaxRdAtomic = 3 }, "MaxDestRdAtomic 17": func(p *Path) { p.Attr.MaxDestRdAtomic = 17 },
	} {
		q := path
		bad(&q)
		if err := w.b.Accept(w.now, reqID, q, nil); err == nil || !strings.Contains(err.Error(), change) {
			t.Errorf("%s: %v", change, err)
		}
	}
	if err := w.b.Accept(w.now, reqID, path, make([]byte, 197)); !errors.Is(err, mad.ErrPrivate) {
		t.Errorf("too much private data: %v", err)
	}
	path.Attr.MaxRdAtomic, path.Attr.MaxDestRdAtomic = 1, 6
	if err := w.b.Accept(w.now, reqID, path, nil); err != nil {
		t.Fatal(err)
	}
	w.run(time.Minute)
	w.want(w.a, id, Reply, Established)
	if a := w.a.the(t, Reply).Path.Attr; a.MaxRdAtomic != 6 || a.MaxDestRdAtomic != 1 || a.Timeout != 20 {
		t.Errorf("reply %+v", a)
	}
}

func TestUC(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.listen(0)
	p := params()
	p.Type = verbs.UC
	w.connect(p)
	w.run(time.Minute)
	if a, b := w.a.the(t, Reply).Path, w.b.the(t, Request).Path; a.Type != verbs.UC || b.Type != verbs.UC || b.Attr.MaxRdAtomic != 0 {
		t.Errorf("paths %+v, %+v", a, b)
	}
}

func TestConnectRefusesWhatCannotBe(t *testing.T) {
	w := newWorld(t, 1, func(c *Config) { c.MaxConns = 1 })
	for want, change := range map[string]func(*ConnectParams){
		"give two IPv4 or two IPv6": func(p *ConnectParams) { p.Local = addr6A },
		"from invalid IP":           func(p *ConnectParams) { p.Local = netip.Addr{} },
		"UD queue pair":             func(p *ConnectParams) { p.Type = verbs.UD },
		"QPN 0x1:":                  func(p *ConnectParams) { p.QPN = 1 },
		"QPN 0xffffff:":             func(p *ConnectParams) { p.QPN = 0xFFFFFF },
		"PMTU is 0":                 func(p *ConnectParams) { p.Attr.PMTU = 0 },
		"PSN 0x1000000":             func(p *ConnectParams) { p.PSN = 1 << 24 },
		"RetryCnt 8":                func(p *ConnectParams) { p.Attr.RetryCnt = 8 },
		"57 bytes of private data":  func(p *ConnectParams) { p.Private = make([]byte, 57) },
	} {
		p := params()
		change(&p)
		if id, err := w.a.Connect(w.now, p); err == nil || !strings.Contains(err.Error(), want) || id != 0 || w.a.Len() != 0 {
			t.Errorf("%v, want %q", err, want)
		}
	}
	p := params()
	p.Service, p.Private = 0x99, make([]byte, 92) // no IP addressing header
	w.connect(p)
	if _, err := w.a.Connect(w.now, p); !errors.Is(err, ErrTooMany) {
		t.Errorf("above MaxConns: %v", err)
	}
}

// Each attempt ends by itself: nobody answers, the application does not answer, an MRA asks for
// patience for hours.
func TestAttemptsEnd(t *testing.T) {
	t.Run("no host", func(t *testing.T) {
		w := newWorld(t, 1, nil)
		w.loss = 100
		id := w.connect(params())
		w.run(8 * time.Second)
		w.want(w.a, id)
		w.run(2 * time.Second) // 8 times 1.07 s
		w.want(w.a, id, Failed, Gone)
		if e := w.a.the(t, Failed); !errors.Is(e.Err, ErrTimeout) || w.a.Counters().Repeated != 7 {
			t.Errorf("%v after %+v", e.Err, w.a.Counters())
		}
	})
	t.Run("MRA", func(t *testing.T) {
		w := newWorld(t, 1, nil)
		w.loss = 100
		id := w.connect(params())
		mra := mad.NewMRA(1, 0x1234, uint32(id), mad.KindREQ)
		mra.SetServiceTimeout(31)
		for range 160 {
			w.run(time.Second)
			w.a.Receive(w.now, addrB, addrA, mra.Header, Plain)
		}
		w.want(w.a, id)
		w.run(25 * time.Second)
		w.want(w.a, id, Failed, Gone)
	})
	t.Run("REQ not served", func(t *testing.T) {
		w := newWorld(t, 1, nil)
		w.listen(0)
		w.b.auto = false
		id := w.connect(params())
		w.run(119 * time.Second) // an MRA keeps the active end waiting
		w.want(w.a, id)
		w.want(w.b, 0, Request)
		w.run(20 * time.Second)
		w.want(w.b, 0, Request, Failed, Gone)
		w.want(w.a, id, Failed, Gone)
		if e := w.b.the(t, Failed); !errors.Is(e.Err, ErrUnserved) {
			t.Error(e.Err)
		}
		wantReason(t, w.a, mad.ReasonTimeout)
	})
}

// The same once the peer has answered.
func TestLaterStatesEnd(t *testing.T) {
	t.Run("REP not served", func(t *testing.T) {
		w := newWorld(t, 1, nil)
		w.listen(0)
		w.a.auto = false
		id := w.connect(params())
		w.run(119 * time.Second)
		w.want(w.a, id, Reply)
		w.run(time.Minute)
		w.want(w.a, id, Reply, Failed, Gone)
		w.want(w.b, 0, Request, Failed, Gone)
		wantReason(t, w.b, mad.ReasonTimeout)
	})
	t.Run("RTU lost", func(t *testing.T) {
		w := newWorld(t, 1, nil)
		w.listen(0)
		w.a.auto = false
		id := w.connect(params())
		w.run(time.Second)
		w.loss = 100
		if err := w.a.Ready(w.now, id, nil); err != nil {
			t.Fatal(err)
		}
		w.run(2 * time.Minute)
		w.want(w.b, 0, Request, Failed, Gone)
		w.want(w.a, id, Reply, Established) // it learns of it from its queue pair, or at its DREQ
	})
	t.Run("slow peer", func(t *testing.T) { // it wants 15 repetitions, 2.4 hours apart
		w := newWorld(t, 1, nil)
		w.listen(0)
		r := request(t)
		r.SetLocalResponseTimeout(31)
		r.SetMaxRetries(15)
		w.b.Receive(w.now, addrA, addrB, r.Header, Proven)
		w.loss = 100
		w.run(137 * time.Second) // it gets 15 of them, 8.6 s apart
		w.want(w.b, 0, Request)
		w.run(1100 * time.Millisecond)
		w.want(w.b, 0, Request, Failed)
	})
	t.Run("DREQ lost", func(t *testing.T) {
		w := newWorld(t, 1, nil)
		w.listen(0)
		id := w.connect(params())
		w.run(time.Second)
		w.loss = 100
		if err := w.a.Disconnect(w.now, id, nil); err != nil {
			t.Fatal(err)
		}
		w.run(time.Minute)
		w.want(w.a, id, Reply, Established, Disconnected, Gone)
	})
}

func wantReason(t *testing.T, h *host, r mad.Reason) {
	t.Helper()
	var rejected *RejectedError
	if e := h.the(t, Failed); !errors.As(e.Err, &rejected) || rejected.Reason != r {
		t.Errorf("%v, want %v", e.Err, r)
	}
}

// A lost RTU is sent again, and data that arrives stands for it.
func TestLostRTU(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.listen(0)
	w.a.auto = false
	id := w.connect(params())
	w.run(time.Second / 2)
	w.loss = 100
	if err := w.a.Ready(w.now, id, nil); err != nil {
		t.Fatal(err)
	}
	w.run(time.Second / 2)
	w.want(w.b, 0, Request)
	w.loss = 0
	w.run(5 * time.Second)
	w.want(w.b, 0, Request, Established)

	w = newWorld(t, 1, nil)
	w.listen(0)
	w.a.auto = false
	w.connect(params())
	w.run(time.Second / 2)
	w.b.Arrived(w.b.the(t, Request).ID)
	w.carry()
	w.want(w.b, 0, Request, Established)
}

func TestReject(t *testing.T) {
	t.Run("request", func(t *testing.T) {
		w := newWorld(t, 1, nil)
		w.listen(0)
		w.b.auto = false
		id := w.connect(params())
		w.run(time.Second / 2)
		reqID := w.b.the(t, Request).ID
		w.loss = 100 // the REJ is lost; the repeated REQ gets it again
		if err := w.b.Reject(w.now, reqID, []byte("busy")); err != nil {
			t.Fatal(err)
		}
		w.carry()
		w.loss = 0
		w.run(time.Minute)
		w.want(w.b, 0, Request, Gone)
		w.want(w.a, id, Failed, Gone)
		var rejected *RejectedError
		if e := w.a.the(t, Failed); !errors.As(e.Err, &rejected) || string(rejected.Private[:5]) != "busy\x00" ||
			e.Err.Error() != `cm: rejected by the peer: refused by the application: "busy"` {
			t.Errorf("%v", e.Err)
		}
		if err := w.b.Reject(w.now, reqID, nil); !errors.Is(err, ErrID) {
			t.Errorf("rejected twice: %v", err)
		}
		if n := w.b.Counters().Rejected; n != 1 {
			t.Errorf("%d rejected", n)
		}
	})
	t.Run("reply", func(t *testing.T) {
		w := newWorld(t, 1, nil)
		w.listen(0)
		w.a.auto = false
		id := w.connect(params())
		w.run(time.Second / 2)
		if err := w.a.Reject(w.now, id, make([]byte, 149)); !errors.Is(err, mad.ErrPrivate) {
			t.Errorf("too much private data: %v", err)
		}
		if err := w.a.Reject(w.now, id, nil); err != nil {
			t.Fatal(err)
		}
		w.run(time.Minute)
		w.want(w.a, id, Reply, Gone)
		w.want(w.b, 0, Request, Failed, Gone)
		wantReason(t, w.b, mad.ReasonConsumer)
	})
}

// The active end cancels while the passive application still thinks about it.
func TestCancel(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.listen(0)
	w.b.auto = false
	id := w.connect(params())
	w.run(time.Second / 2)
	if err := w.a.Disconnect(w.now, id, nil); err != nil {
		t.Fatal(err)
	}
	w.run(time.Minute)
	w.want(w.a, id, Failed, Gone)
	w.want(w.b, 0, Request, Failed, Gone)
	if e := w.a.the(t, Failed); !errors.Is(e.Err, ErrCanceled) {
		t.Error(e.Err)
	}
}

// Both ends disconnect at the same time: each DREQ is answered, and nobody waits.
func TestSimultaneousDisconnect(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.listen(0)
	id := w.connect(params())
	w.run(time.Second)
	if err := errors.Join(w.a.Disconnect(w.now, id, nil), w.b.Disconnect(w.now, w.b.the(t, Request).ID, nil)); err != nil {
		t.Fatal(err)
	}
	w.run(time.Second)
	w.want(w.a, id, Reply, Established, Disconnected)
	w.want(w.b, 0, Request, Established, Disconnected)
	w.run(2 * time.Second)
	w.want(w.a, id, Reply, Established, Disconnected, Gone)
	if w.a.Counters().Repeated+w.b.Counters().Repeated != 0 {
		t.Error("a DREQ was repeated")
	}
}
