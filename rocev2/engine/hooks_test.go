// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// recorder is a feature that counts what the engine calls.
type recorder struct {
	noHooks
	calls   map[string]int
	refuse  bool // mayStart
	charged int
	before  inFlight // of the last onReceived or onTimeout
	acks    int      // calls of onTimeout with ack
}

func (r *recorder) count(name string) { r.calls[name]++ }

func (r *recorder) onConnect(x *QP, _ *verbs.Attr) { r.count("onConnect"); x.hooked = true }
func (r *recorder) onRenewed(*dest)                { r.count("onRenewed") }
func (r *recorder) onPeer(*dest, *DestSync)        { r.count("onPeer") }
func (r *recorder) onControl(rocev2.Packet, Meta)  { r.count("onControl") }
func (r *recorder) next(int) int                   { r.count("next"); return 0 }
func (r *recorder) onSend(*QP, *dest, *qp.Outbound, bool) bool {
	r.count("onSend")
	return false
}
func (r *recorder) onIteration()                { r.count("onIteration") }
func (r *recorder) onPosted(*QP, *verbs.SendWR) { r.count("onPosted") }
func (r *recorder) mayStart(*QP) bool           { r.count("mayStart"); return !r.refuse }
func (r *recorder) quantum(*QP) int32           { r.count("quantum"); return 1 }
func (r *recorder) onCharged(_ *QP, n int)      { r.charged += n }
func (r *recorder) onReceived(_ *QP, _ rocev2.Packet, _ Meta, before inFlight, _ bool) {
	r.count("onReceived")
	r.before = before
}
func (r *recorder) onTimeout(_ *QP, ack bool, before uint64) {
	if ack {
		r.acks++
	}
	r.before = inFlight{bytes: before}
}
func (r *recorder) onDisconnect(x *QP) { r.count("onDisconnect"); x.hooked = false }

// A feature is called for what happens to queue pairs that use it, from their connection to
// their end.
func TestHooksOfTransmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{calls: map[string]int{}}
		l := newLoopback(t, 1)
		l.e.hooks = r
		x := l.connect(verbs.RC, rocev2.PMTU1024, 8)
		if r.calls["onConnect"] != 2 || !x.hooked {
			t.Fatalf("%v", r.calls)
		}
		r.refuse = true
		l.post(x, verbs.OpWrite, 3000)
		if err := l.iterate(0); err != nil {
			t.Fatal(err)
		}
		if r.calls["onPosted"] != 1 || r.calls["mayStart"] == 0 || r.charged != 0 || x.drr.Queued() {
			t.Errorf("refused: %v, %d bytes sent, queued %v", r.calls, r.charged, x.drr.Queued())
		}
		r.refuse = false
		l.e.tx.enqueue(&x.egress)
		if err := l.run(1, func() time.Duration { return time.Microsecond }); err != nil {
			t.Fatal(err)
		}
		if want := 3000 + 3*54; r.charged < want || r.charged > want+100 {
			t.Errorf("%d bytes charged, want about %d", r.charged, want)
		}
		for _, name := range []string{"next", "onIteration", "quantum", "onSend"} {
			if r.calls[name] == 0 {
				t.Errorf("%s was not called: %v", name, r.calls)
			}
		}
		if l.e.dests.applyEntry(x.dest, &DestSync{}); r.calls["onPeer"] != 1 {
			t.Errorf("%v", r.calls)
		}
		if l.e.RemoveQP(x); r.calls["onDisconnect"] != 1 || x.hooked {
			t.Errorf("%v", r.calls)
		}
	})
}

// The hooks get what was in flight before a packet or a timer. What an RNR NAK has refused is not acknowledged. The
// destination is busy until all of it has a response.
func TestHooksOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{calls: map[string]int{}}
		l := newLoopback(t, 1)
		l.e.hooks = r
		x := l.connect(verbs.RC, rocev2.PMTU1024, 8)
		f, first := &x.dest.flight, x.q.Attr().SQPSN
		l.e.Begin(testNow())
		for range 4 {
			l.post(x, verbs.OpSend, 1000)
		}
		l.e.tx.flushDirty()
		l.e.tx.transmit()
		l.e.rx.loopback.count = 0
		all := f.Bytes()
		l.refuse(x, first.Add(1))
		if want := (inFlight{all, all / 4 * 3}); r.before != want || f.Bytes() != 0 {
			t.Errorf("%+v was in flight before the NAK, want %+v; then %d bytes", r.before, want, f.Bytes())
		}
		if !f.Busy() {
			t.Error("the destination is idle in the wait of the NAK")
		}
		for bytes := uint64(0); r.acks == 0; {
			time.Sleep(time.Duration(x.q.Deadline() - testNow()))
			l.e.Begin(testNow())
			bytes = f.Bytes()
			l.e.expire(x)
			if r.acks != 0 && (bytes == 0 || r.before.bytes != bytes || f.Bytes() != 0) {
				t.Errorf("%d bytes were in flight before the timeout, want %d; then %d", r.before.bytes, bytes, f.Bytes())
			}
			l.e.tx.flushDirty()
			l.e.tx.transmit()
			l.e.rx.loopback.count = 0
		}
		if l.e.RemoveQP(x); f.Busy() {
			t.Error("the destination is busy without queue pairs")
		}
	})
}

// A received packet passes the hooks of its queue pair, and no others; a control packet those
// of the engine.
func TestHooksOfReception(t *testing.T) {
	for _, c := range []struct {
		engine, pair bool
		want         map[string]int
	}{
		{false, false, map[string]int{}},
		{true, false, map[string]int{"onControl": 1}},
		{true, true, map[string]int{"onControl": 1, "onReceived": 1}},
	} {
		e := bench(t)
		r := &recorder{calls: map[string]int{}}
		x := receiving(t, e, verbs.RC)
		if c.engine {
			e.hooks = r
		}
		if c.pair {
			x.hooked = true
		}
		for _, d := range []rocev2.Datagram{
			{Opcode: rocev2.RCSendOnly, DestQP: x.num, AckReq: true},
			{Opcode: rocev2.OpCreditGrant, DestQP: rocev2.ControlQPN, LifeNs: 1},
		} {
			d.Src, d.Dst = peer, us
			b, err := d.AppendTo([]byte{12: 8, 13: 0})
			if err != nil {
				t.Fatal(err)
			}
			e.rx.frame(b, Meta{}, false)
		}
		if got := fmt.Sprint(r.calls); got != fmt.Sprint(c.want) || e.count.rxPackets != 1 {
			t.Errorf("%+v: %s, %d packets delivered", c, got, e.count.rxPackets)
		}
	}
}
