// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// patience bounds every wait: it only ends checks that have failed.
const patience = 30 * time.Second

const (
	allRights = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic | verbs.AccessBindWindows
	memory    = 16384 // bytes of the region of an end
	qkey      = 0x11111111
)

// column is two devices of one kind that reach each other. Those of the loopback device are the same one.
type column struct {
	dev  [2]verbs.Device
	addr [2]netip.Addr
	// register makes memory of the column's kind.
	register func(pd verbs.PD, side, bytes int, access verbs.Access) (verbs.DM, error)
}

// world is what one check has: the devices, and what it has observed.
type world struct {
	*column
	t   *testing.T
	log []string
}

// say adds to what the check has observed.
func (w *world) say(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// says adds which error of package verbs err wraps.
func (w *world) says(err error) { w.say("%s", kind(err)) }

func (w *world) seen() string { return strings.Join(w.log, ", ") }

// notOffered reports whether the column does not have what is checked, and adds what it says. Another error fails.
func (w *world) notOffered(err error) bool {
	w.t.Helper()
	if err == nil {
		return false
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		w.must(err)
	}
	w.say(notOffered+"%v", err)
	return true
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v; before: %s", err, w.seen())
	}
}

// kinds are the names of errors in what is observed.
var kinds = []struct {
	err  error
	name string
}{
	{verbs.ErrSendState, "ErrSendState"}, {verbs.ErrRecvState, "ErrRecvState"}, {verbs.ErrQueueFull, "ErrQueueFull"}, {verbs.ErrSRQ, "ErrSRQ"},
	{verbs.ErrOp, "ErrOp"}, {verbs.ErrFlags, "ErrFlags"}, {verbs.ErrSGL, "ErrSGL"}, {verbs.ErrTooLong, "ErrTooLong"}, {verbs.ErrInline, "ErrInline"},
	{verbs.ErrAtomic, "ErrAtomic"}, {verbs.ErrRdAtomic, "ErrRdAtomic"}, {verbs.ErrAH, "ErrAH"}, {verbs.ErrFence, "ErrFence"},
	{verbs.ErrDestroyed, "ErrDestroyed"}, {verbs.ErrBusy, "ErrBusy"}, {verbs.ErrAccess, "ErrAccess"}, {verbs.ErrRange, "ErrRange"},
	{verbs.ErrGone, "ErrGone"}, {verbs.ErrClosed, "ErrClosed"}, {proto.ErrProtocol, "ErrProtocol"}, // no check wants these
}

func kind(err error) string {
	if err == nil {
		return "ok"
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "refused"
}

// end is a queue pair, with what belongs to it.
type end struct {
	w    *world
	dev  verbs.Device
	addr netip.Addr
	side int
	pd   verbs.PD
	cq   verbs.CQ
	qp   verbs.QP
	mem  verbs.DM
}

// end makes one on a side, in RESET.
func (w *world) end(side int, change func(*verbs.QPInit)) *end {
	w.t.Helper()
	e := &end{w: w, dev: w.dev[side], addr: w.addr[side], side: side}
	var err error
	e.pd, err = e.dev.AllocPD()
	w.must(err)
	e.cq, err = e.dev.CreateCQ(64)
	w.must(err)
	e.mem = e.region(memory, allRights)
	w.t.Cleanup(e.free)
	e.qp = e.queuePair(change)
	return e
}

// free ends what an end has besides queue pairs, as far as the check has not.
func (e *end) free() {
	_, _, _ = e.mem.Deregister(), e.cq.Destroy(), e.pd.Free()
}

func (e *end) queuePair(change func(*verbs.QPInit)) verbs.QP {
	e.w.t.Helper()
	i := verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq, MaxSend: 16, MaxRecv: 16, MaxSendSGE: 3, MaxRecvSGE: 3, MaxInline: 64}
	change(&i)
	q, err := e.pd.CreateQP(i)
	e.w.must(err)
	e.w.t.Cleanup(func() { q.Destroy() })
	return q
}

func (e *end) region(bytes int, access verbs.Access) verbs.DM {
	e.w.t.Helper()
	m, err := e.w.register(e.pd, e.side, bytes, access)
	e.w.must(err)
	return m
}

func (e *end) endpoint() verbs.Endpoint {
	return verbs.Endpoint{Addr: e.addr, QPN: e.qp.QPN(), PSN: 0xfffffe, QKey: qkey} // the PSN wraps soon
}

func rc(*verbs.QPInit)   {}
func uc(i *verbs.QPInit) { i.Type = verbs.UC }
func ud(i *verbs.QPInit) { i.Type = verbs.UD }

// ends are two ends in INIT.
func (w *world) ends(change func(*verbs.QPInit)) (a, b *end) {
	w.t.Helper()
	a, b = w.end(0, change), w.end(1, change)
	a.init()
	b.init()
	return a, b
}

func (e *end) init() {
	e.w.t.Helper()
	e.w.must(verbs.ToInit(e.qp, e.endpoint(), verbs.DefaultAttr()))
}

func asDefault(*verbs.Attr) {}

// connect connects two ends. change is for attributes of both.
func connect(a, b *end, change func(*verbs.Attr)) {
	a.w.t.Helper()
	attr := verbs.DefaultAttr()
	change(&attr)
	a.w.must(verbs.Connect(b.qp, b.endpoint(), a.endpoint(), attr))
	a.w.must(verbs.Connect(a.qp, a.endpoint(), b.endpoint(), attr))
}

// pair is two ends that are connected.
func (w *world) pair(change func(*verbs.QPInit)) (a, b *end) {
	w.t.Helper()
	a, b = w.ends(change)
	connect(a, b, asDefault)
	return a, b
}

// to makes a step to a state, without other attributes, and says what came out.
func (e *end) to(s verbs.State) {
	e.w.says(e.qp.Modify(verbs.Attr{State: s}, verbs.MaskState))
}

// sgl is a list of one element.
func sgl(m verbs.DM, off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: m.VA() + uint64(off), Len: uint32(n), LKey: m.LKey()}}
}

func (e *end) sgl(off, n int) []verbs.SGE { return sgl(e.mem, off, n) }

// recv posts a receive that must be taken.
func (e *end) recv(id uint64, list []verbs.SGE) {
	e.w.t.Helper()
	e.w.must(e.qp.PostRecv(&verbs.RecvWR{ID: id, SGL: list}))
}

// post posts a signaled work request that must be taken.
func (e *end) post(wr verbs.SendWR) {
	e.w.t.Helper()
	wr.Flags |= verbs.Signaled
	e.w.must(e.qp.PostSend(&wr))
}

// write is a WRITE of n bytes of the start of e's memory to the start of a region.
func (e *end) write(id uint64, to verbs.MR, n int) verbs.SendWR {
	return verbs.SendWR{ID: id, Op: verbs.OpWrite, SGL: e.sgl(0, n), RemoteAddr: to.VA(), RKey: to.RKey()}
}

// next waits for the next completion.
func (e *end) next() verbs.Completion {
	e.w.t.Helper()
	return devices.Next(e.w.t, e.cq)
}

// result waits for the next completion, and says its number and its status.
func (e *end) result() verbs.Completion {
	e.w.t.Helper()
	c := e.next()
	e.w.say("%d %s", c.WRID, c.Status)
	return c
}

// state says the state when the queue pair has come to one.
func (e *end) state(s verbs.State) {
	for until := time.Now().Add(patience); e.qp.State() != s && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	e.w.say("%s", e.qp.State())
}

// put writes text to the memory, and get says what is there.
func (e *end) put(off int, text string) {
	e.w.t.Helper()
	_, err := e.mem.WriteAt([]byte(text), int64(off))
	e.w.must(err)
	e.order()
}

// order is a call of the device, so that the race detector knows of an order between accesses of the check to the
// memory and those of the device for the peer, which nothing else of this device tells of.
func (e *end) order() {
	e.w.t.Helper()
	_, err := e.qp.Query()
	e.w.must(err)
}

func (e *end) get(off, n int) {
	e.w.t.Helper()
	e.w.say("%q", e.bytes(off, n))
}

func (e *end) bytes(off, n int) []byte {
	e.w.t.Helper()
	e.order()
	b := make([]byte, n)
	_, err := e.mem.ReadAt(b, int64(off))
	e.w.must(err)
	return b
}

// event waits for an event of a kind about an object, and says its kind.
func (e *end) event(typ verbs.EventType, about any) {
	e.w.t.Helper()
	for limit := time.After(patience); ; {
		select {
		case v := <-e.dev.Events():
			if v.Type == typ && (about == any(v.QP) || about == any(v.CQ) || about == any(v.SRQ)) {
				e.w.say("%s", v.Type)
				return
			}
		case <-limit:
			e.w.t.Fatalf("no event %s, after: %s", typ, e.w.seen())
		}
	}
}

// handle is an address handle to a peer.
func (e *end) handle(to *end) verbs.AH {
	e.w.t.Helper()
	h, err := e.pd.CreateAH(verbs.AddressVector{Dst: to.addr})
	e.w.must(err)
	e.w.t.Cleanup(func() { h.Destroy() })
	return h
}

// datagram is a SEND of UD with the first bytes of e's memory.
func (e *end) datagram(id uint64, h verbs.AH, to *end, n int) verbs.SendWR {
	return verbs.SendWR{ID: id, Op: verbs.OpSend, SGL: e.sgl(0, n), AH: h, RemoteQPN: to.qp.QPN(), RemoteQKey: qkey}
}
