// SPDX-License-Identifier: Apache-2.0

package card

import (
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// firstQP is the first element of block qp that is used: 0 and 1 are QP0 and QP1 of IBTA.
const firstQP = 2

// typeSRQ is the type of an element that is a shared receive queue. The other types have the
// numbers of verbs.QPType.
const typeSRQ = 4

// queuePair is an element of block qp that is not in RESET.
type queuePair struct {
	d        *dataPath
	num      uint32
	q        engine.QP
	path     *route // route to the peer; nil for UD, and without a connection
	send     sendQueue
	recv     recvQueue
	sq, rq   ring
	srq      *sharedQueue // shared receive queue, or nil
	ah       ring         // table of address handles
	page     uint32
	pd       uint32
	pkey     uint16
	crypt    *engine.CryptCounters // nil unless the queue pair is encrypted
	handles  map[uint32]*handle    // address handles that were read, by the entries of their table
	shown    verbs.State
	fetching bool // the queue pair is in dataPath.fetching
}

// Show implements engine.QueueView. Where the queue has room for WQEs that wait in the ring, they are read next.
func (x *queuePair) Show(s verbs.State, _, _ uint32) {
	if x.d.qps[x.num] != x {
		return
	}
	if s != x.shown {
		x.shown = s
		x.d.showState(x.num, s, false)
	}
	if x.sq.consumer != x.sq.producer && !x.fetching {
		x.fetching = true
		x.d.fetching = append(x.d.fetching, x)
	}
}

// FindReceives implements engine.QueueView. The card reads receives as soon as there is room.
func (x *queuePair) FindReceives() {}

// sharedQueue is an element of type 4.
type sharedQueue struct {
	num  uint32
	q    engine.SRQ
	rq   ring
	page uint32
	pd   uint32
	uses int // queue pairs
}

// modify executes the command of block qp, and shows state and result.
func (d *dataPath) modify(i uint32, c regs.QpModify) {
	if !c.ModifyStart() {
		return
	}
	var ok bool
	state := verbs.StateReset
	if i >= firstQP {
		if d.srqs[i] != nil || d.qps[i] == nil && d.context(i).Config().QpType() == typeSRQ {
			ok = d.modifyShared(i, verbs.State(c.To()))
		} else {
			ok = d.modifyPair(i, verbs.State(c.To()), verbs.AttrMask(c.Attributes()<<1))
		}
	}
	switch {
	case d.qps[i] != nil:
		state = d.qps[i].q.State()
		d.qps[i].shown = state
	case d.srqs[i] != nil:
		state = verbs.StateInit
	}
	d.showState(i, state, !ok)
}

func (d *dataPath) context(i uint32) regs.Qp { return regs.QpOf(d.in, int(i)) }

func (d *dataPath) showState(i uint32, s verbs.State, refused bool) {
	v := regs.QpStatus(0).WithState(uint32(s)).WithRefused(refused)
	d.in.W32(regs.QpBase+uint64(i)*regs.QpStride+regs.QpStatusOffset, uint32(v))
}

// modifyPair changes a queue pair, makes it if it leaves RESET, and ends it if it returns there.
func (d *dataPath) modifyPair(i uint32, to verbs.State, mask verbs.AttrMask) bool {
	x := d.qps[i]
	fresh := x == nil
	if fresh {
		switch {
		case to == verbs.StateReset:
			return true
		case to != verbs.StateInit:
			return false
		}
		if x = d.newPair(i); x == nil {
			return false
		}
	}
	d.net.renewRoutes()
	a := readAttr(d.context(i))
	a.State = to
	path := x.path
	if mask&verbs.MaskAV != 0 {
		path = d.net.newRoute(readPath(d.context(i)))
		a.AV.TClass, a.AV.HopLimit = path.tclass, path.hopLimit
	}
	if !d.change(x, &a, mask, path) {
		if path != x.path {
			path.path.Release()
		}
		if fresh {
			d.net.core.RemoveQP(&x.q)
		}
		return false
	}
	x.path = path
	if fresh {
		d.addPair(x)
	}
	if to == verbs.StateReset {
		d.removePair(x)
	}
	return true
}

// change has the engine change a queue pair. path: its route from then on.
func (d *dataPath) change(x *queuePair, a *verbs.Attr, mask verbs.AttrMask, path *route) bool {
	var keys *seal.End
	if a.State == verbs.StateRTR {
		var ok bool
		if keys, ok = d.keysFor(x); !ok {
			return false
		}
	}
	if !d.fits(x, path, a, mask, keys != nil || x.crypt != nil) {
		return false
	}
	var count engine.CryptCounters
	if keys != nil && x.q.SetKeys(keys, &count) != nil {
		return false
	}
	pkey := a.PKey
	if pkey == rocev2.DefaultPKey {
		a.PKey = 0 // as the engine has it
	}
	var to *engine.Path
	if path != x.path {
		to = path.path
	}
	left, err := d.net.core.Modify(&x.q, a, mask|verbs.MaskState, to)
	release(left)
	if err != nil {
		if keys != nil {
			x.q.DropKeys()
		}
		return false
	}
	if keys != nil {
		d.encrypt(x, &count)
	}
	if mask&verbs.MaskPKey != 0 && x.crypt == nil {
		x.pkey = pkey
	}
	return true
}

// release gives paths back.
func release(left []*engine.Path) {
	for _, p := range left {
		p.Release()
	}
}

// fits reports whether the card can send to where a queue pair is connected, with this PMTU. The P_Key of
// encrypted packets is none of an application, and an encrypted queue pair has no other one.
func (d *dataPath) fits(x *queuePair, path *route, a *verbs.Attr, mask verbs.AttrMask, encrypted bool) bool {
	if mask&verbs.MaskPKey != 0 && (engine.MatchPKey(a.PKey, seal.PKey) || encrypted && a.PKey != rocev2.DefaultPKey) {
		return false
	}
	connected := x.q.Type() != verbs.UD && a.State >= verbs.StateRTR && a.State < verbs.StateErr
	if connected && (path == nil || !path.addressesAreValid) {
		return false
	}
	if !connected || mask&verbs.MaskPMTU == 0 || !a.PMTU.Valid() {
		return true // Modify refuses a PMTU that is not valid
	}
	port, ok := d.net.portOf(&path.address)
	need := a.PMTU.Bytes() + rocev2.PMTUOverhead
	if encrypted {
		need += seal.Overhead
	}
	return ok && need <= int(d.net.port(port).mtu)
}

// newPair makes a queue pair of the registers of its context, or returns nil if they name what
// does not exist.
func (d *dataPath) newPair(i uint32) *queuePair {
	e := d.context(i)
	config, rings, queues := e.Config(), e.Rings(), e.Queues()
	t := verbs.QPType(config.QpType())
	x := &queuePair{
		d: d, num: i, page: config.QpPage(), pd: e.Domain().QpPd(), pkey: rocev2.DefaultPKey,
		send: sendQueue{cq: d.cqs[queues.SendCq()]}, recv: recvQueue{cq: d.cqs[queues.RecvCq()]},
	}
	if t < verbs.RC || t > verbs.UD || x.send.cq == nil || x.recv.cq == nil {
		return nil
	}
	var ok1, ok2 bool
	x.sq, ok1 = newRing(e.SqBase().SqAddress(), rings.SqLog2(), rings.SqEntryLog2())
	x.rq, ok2 = newRing(e.RqBase().RqAddress(), rings.RqLog2(), rings.RqEntryLog2())
	if config.UseSrq() {
		x.srq = d.srqs[e.Shared().Srq()]
		ok2 = x.srq != nil
	} else if x.rq.entry < wqe.WqeRecvBytes+wqe.SgeBytes || x.rq.entry > maxEntry {
		return nil
	}
	if !ok1 || !ok2 || x.sq.entry < wqe.WqeBytes || x.sq.entry > maxEntry || x.sq.entries > maxEntries || x.rq.entries > maxEntries {
		return nil
	}
	x.ah = ring{base: e.AhBase().AhAddress(), entries: e.AhSize().AhEntries(), entry: regs.AddressHandleBytes}
	x.send.sent = make([]posted, x.sq.entries)
	inline := int(x.sq.entry) - wqe.WqeBytes
	cfg := engine.QPConfig{Config: qp.Config{
		QPN: i, Type: t, PD: x.pd, SignalAll: config.SignalAll(), Memory: d.mem.memory(), Count: &d.count,
		MaxSend: int(x.sq.entries), MaxSendSGE: inline / wqe.SgeBytes, MaxInline: max(inline, mr.ReportLen), SendCQ: &x.send, RecvCQ: &x.recv,
		Notify: func(ev verbs.EventType) { d.event(i, ev) },
	}}
	if x.srq != nil {
		cfg.Shared = &x.srq.q
	} else {
		cfg.MaxRecv, cfg.MaxRecvSGE = int(x.rq.entries), int(x.rq.entry-wqe.WqeRecvBytes)/wqe.SgeBytes
	}
	if d.net.core.AddQP(&x.q, cfg) != nil {
		return nil
	}
	x.q.SetView(x)
	return x
}

// maxEntry is the longest entry of a ring in bytes.
const maxEntry = 1024

func (d *dataPath) addPair(x *queuePair) {
	d.qps[x.num] = x
	for _, g := range d.groups {
		for _, f := range g.all {
			f.Renew(&x.q)
		}
	}
	d.mem.openPD(x.pd)
	_ = d.mem.table().AcquirePD(x.pd) // openPD has made it
	if x.srq != nil {
		x.srq.uses++
	}
}

// removePair ends a queue pair that has returned to RESET.
func (d *dataPath) removePair(x *queuePair) {
	delete(d.qps, x.num)
	delete(d.secrets, x.num)
	if t := x.recv.tasks; t != nil {
		t.complete(verbs.Completion{QPN: x.num, Status: verbs.StatusWRFlushed}) // ends it
	}
	release(d.net.core.RemoveQP(&x.q))
	for _, h := range x.handles {
		d.net.endUse(h)
	}
	for i := range x.send.sent {
		d.net.endUse(x.send.sent[i].to)
	}
	d.showCrypt(x)
	d.mem.releaseWindows(x.num)
	d.mem.table().ReleasePD(x.pd)
	d.mem.closePD(x.pd)
	if x.srq != nil {
		x.srq.uses--
	}
	x.sq.consumer, x.rq.consumer = 0, 0
	d.showConsumers(x.num, &x.sq, &x.rq)
}

// modifyShared makes a shared receive queue, sets its limit or ends it.
func (d *dataPath) modifyShared(i uint32, to verbs.State) bool {
	s := d.srqs[i]
	e := d.context(i)
	switch {
	case to == verbs.StateReset && s == nil:
		return true
	case to == verbs.StateReset && s.uses > 0, to > verbs.StateInit:
		return false
	case to == verbs.StateReset:
		delete(d.srqs, i)
		d.mem.table().ReleasePD(s.pd)
		d.mem.closePD(s.pd)
		d.showConsumers(i, &ring{}, &ring{})
		return true
	}
	if s == nil {
		rings := e.Rings()
		r, ok := newRing(e.RqBase().RqAddress(), rings.RqLog2(), rings.RqEntryLog2())
		if !ok || r.entry < wqe.WqeRecvBytes+wqe.SgeBytes || r.entry > maxEntry || r.entries > maxEntries {
			return false
		}
		s = &sharedQueue{num: i, rq: r, page: e.Config().QpPage(), pd: e.Domain().QpPd()}
		s.q.Init(qp.SRQConfig{
			PD: s.pd, Max: int(r.entries), MaxSGE: int(r.entry-wqe.WqeRecvBytes) / wqe.SgeBytes,
			Notify: func(ev verbs.EventType) { d.event(i, ev) },
		})
		d.srqs[i] = s
		d.mem.openPD(s.pd)
		_ = d.mem.table().AcquirePD(s.pd)
	}
	s.q.SetLimit(int(e.Shared().SrqLimit()))
	return true
}

// event shows an event of an element of block qp.
func (d *dataPath) event(i uint32, ev verbs.EventType) {
	d.net.core.ShowFailure(i) // the state is there before the event
	var v regs.QpEvents
	switch ev {
	case verbs.EventQPEstablished:
		v = v.WithEstablished(true)
	case verbs.EventQPDrained:
		v = v.WithDrained(true)
	case verbs.EventQPFatal:
		v = v.WithFatal(true)
	case verbs.EventQPAccess:
		v = v.WithAccessError(true)
	case verbs.EventQPRequest:
		v = v.WithRequestError(true)
	case verbs.EventQPLastWQE:
		v = v.WithLastWqe(true)
	case verbs.EventSRQLimit:
		v = v.WithLimitReached(true)
	}
	d.setEvents(i, v)
}

func (d *dataPath) setEvents(i uint32, v regs.QpEvents) {
	e := d.context(i)
	e.SetEvents(e.Events() | v)
	d.in.setBit(regs.InterruptsBase+regs.InterruptsQpEventOffset, i)
	d.raise(regs.InterruptsCauses(0).WithQueuePair(true))
}

func readAttr(e regs.Qp) verbs.Attr {
	t, reads, rights := e.Transport(), e.Reads(), e.Rights()
	a := verbs.Attr{
		PMTU: rocev2.PMTU(t.Pmtu()), DestQPN: e.Dest().DestQpn(), PKey: uint16(e.Partition().Pkey()), QKey: e.Qkey(),
		SQPSN: rocev2.PSN(e.SendPsn().SqPsn()), RQPSN: rocev2.PSN(e.RecvPsn().RqPsn()),
		MaxRdAtomic: uint8(reads.MaxRdAtomic()), MaxDestRdAtomic: uint8(reads.MaxDestRdAtomic()),
		MinRNRTimer: uint8(t.MinRnrTimer()), Timeout: uint8(t.Timeout()), RetryCnt: uint8(t.RetryCnt()), RNRRetry: uint8(t.RnrRetry()),
		Selective: rights.Selective(),
	}
	if a.PKey == 0 {
		a.PKey = rocev2.DefaultPKey
	}
	for _, r := range []struct {
		on    bool
		right verbs.Access
	}{{rights.AllowWrite(), verbs.AccessRemoteWrite}, {rights.AllowRead(), verbs.AccessRemoteRead}, {rights.AllowAtomic(), verbs.AccessRemoteAtomic}} {
		if r.on {
			a.Access |= r.right
		}
	}
	return a
}
