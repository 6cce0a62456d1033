// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// Limits of one work request, of the longest entry of a ring.
const (
	MaxInline  = 1024 - wqe.WqeBytes
	MaxSendSGE = MaxInline / wqe.SgeBytes
	MaxRecvSGE = (1024 - wqe.WqeRecvBytes) / wqe.SgeBytes

	defaultDepth = 64
)

// setDefaults checks what never changes.
func setDefaults(i *verbs.QPInit) error {
	if i.SRQ != nil { // those of the SRQ count
		i.MaxRecv, i.MaxRecvSGE = 0, 0
	}
	for _, v := range []struct {
		what         string
		n            *int
		normal, most int
	}{
		{"MaxSend", &i.MaxSend, defaultDepth, 1 << maxLog2}, {"MaxRecv", &i.MaxRecv, defaultDepth, 1 << maxLog2},
		{"MaxSendSGE", &i.MaxSendSGE, 1, MaxSendSGE}, {"MaxRecvSGE", &i.MaxRecvSGE, 1, MaxRecvSGE},
		{"MaxInline", &i.MaxInline, 0, MaxInline},
	} {
		if *v.n == 0 {
			*v.n = v.normal
		}
		if *v.n < 0 || *v.n > v.most {
			return fmt.Errorf("card: %s is %d: use 0 to %d", v.what, *v.n, v.most)
		}
	}
	if i.Type < verbs.RC || i.Type > verbs.UD {
		return fmt.Errorf("card: type %d of a queue pair: use RC, UC or UD", i.Type)
	}
	if i.SRQ != nil && i.Type == verbs.UC {
		return errors.New("card: UC has no shared receive queue (IBTA 10.2.9)")
	}
	return nil
}

// create makes the queue pair of the card, in RESET.
func (q *QP) create() (err error) {
	d, init := q.d, &q.init
	if err := setDefaults(init); err != nil {
		return err
	}
	entry := wqe.WqeBytes + max(init.MaxInline, init.MaxSendSGE*wqe.SgeBytes)
	if q.sq, err = newRing(d, log2(init.MaxSend), log2(entry)); err != nil {
		return err
	}
	if q.srq == nil {
		q.rq, err = newRing(d, log2(init.MaxRecv), log2(wqe.WqeRecvBytes+init.MaxRecvSGE*wqe.SgeBytes))
	}
	if err == nil && init.Type == verbs.UD {
		q.table, err = newRing(d, log2(maxHandles), log2(regs.AddressHandleBytes))
		q.used = make([]bool, maxHandles)
	}
	if err == nil {
		q.num, err = d.take(&d.free.qps, 1, 1)
	}
	if err != nil {
		q.free()
		return err
	}
	e := q.context()
	e.SetModify(command(verbs.StateReset, 0)) // whatever was there before
	q.write(e)
	return d.card.Err()
}

// write writes the properties that never change.
func (q *QP) write(e regs.Qp) {
	i := &q.init
	config := regs.QpConfig(0).WithQpType(uint32(i.Type)).WithSignalAll(i.SignalAll).WithQpPage(uint32(q.d.config.Page))
	if q.srq != nil {
		config = config.WithUseSrq(true)
		e.SetShared(regs.QpShared(0).WithSrq(uint32(q.srq.num)))
	}
	e.SetConfig(config)
	e.SetDomain(regs.QpDomain(0).WithQpPd(q.pd.num))
	e.SetQueues(regs.QpQueues(0).WithSendCq(uint32(q.send.num)).WithRecvCq(uint32(q.recv.num)))
	e.SetRings(regs.QpRings(0).WithSqLog2(q.sq.log2).WithSqEntryLog2(q.sq.entryLog2).WithRqLog2(q.rq.log2).WithRqEntryLog2(q.rq.entryLog2))
	e.SetSqBase(regs.QpSqBase(0).WithSqAddress(q.sq.base))
	e.SetRqBase(regs.QpRqBase(0).WithRqAddress(q.rq.base))
	e.SetAhBase(regs.QpAhBase(0).WithAhAddress(q.table.base))
	e.SetAhSize(regs.QpAhSize(0).WithAhEntries(uint32(len(q.used))))
	e.SetEncryption(0)
	e.SetEvents(^regs.QpEvents(0))
}

func (q *QP) context() regs.Qp { return regs.QpOf(q.d.card, int(q.num)) }

func (q *QP) doorbell() regs.Doorbells { return regs.DoorbellsOf(q.d.card, q.d.config.Page) }

// state reads the state.
func (q *QP) state() verbs.State { return verbs.State(q.context().Status().State()) }

// Events reads and clears what has happened to the queue pair. A device of Open does so too, and
// sends what verbs.Event has.
func (q *QP) Events() regs.QpEvents {
	e := q.context().Events()
	q.context().SetEvents(e)
	return e
}

func command(to verbs.State, mask verbs.AttrMask) regs.QpModify {
	return regs.QpModify(0).WithTo(uint32(to)).WithAttributes(uint32(mask >> 1)).WithModifyStart(true)
}

// modify sets attributes and state, as verbs.QP has it. After an error nothing has changed.
func (q *QP) modify(a verbs.Attr, mask verbs.AttrMask) error {
	from := q.state()
	to := from
	if mask&verbs.MaskState != 0 {
		to = a.State
	}
	e := q.context()
	if err := checkAttr(&a, mask); err != nil {
		return err
	}
	if mask&verbs.MaskAV != 0 {
		if err := q.writeAV(e, &a.AV); err != nil {
			return err
		}
	}
	writeAttr(e, &a, mask)
	e.SetModify(command(to, mask))
	status := e.Status()
	if err := q.d.card.Err(); err != nil {
		return err
	}
	if status.Refused() {
		return fmt.Errorf("card: %s queue pair %d from %s to %s with %s: %w: give the attributes that this step takes and needs, and a PMTU that the port's MTU has room for",
			q.init.Type, q.num, from, to, mask&^verbs.MaskState, errRefused)
	}
	if to == verbs.StateReset {
		e.SetEncryption(0)
		q.sq.reset()
		q.rq.reset()
	}
	return nil
}

// checkAttr refuses values that do not fit their fields.
func checkAttr(a *verbs.Attr, mask verbs.AttrMask) error {
	for _, v := range []struct {
		bit     verbs.AttrMask
		n, most uint32
	}{
		{verbs.MaskPMTU, uint32(a.PMTU), 5}, {verbs.MaskDestQPN, a.DestQPN, 1<<24 - 1}, {verbs.MaskSQPSN, uint32(a.SQPSN), 1<<24 - 1},
		{verbs.MaskRQPSN, uint32(a.RQPSN), 1<<24 - 1}, {verbs.MaskMinRNRTimer, uint32(a.MinRNRTimer), 31}, {verbs.MaskTimeout, uint32(a.Timeout), 31},
		{verbs.MaskRetryCnt, uint32(a.RetryCnt), 7}, {verbs.MaskRNRRetry, uint32(a.RNRRetry), 7},
	} {
		if mask&v.bit != 0 && v.n > v.most {
			return fmt.Errorf("card: %s is %d, the largest is %d", v.bit, v.n, v.most)
		}
	}
	return nil
}

// writeAttr writes the attributes of the mask to the context and keeps the others.
func writeAttr(e regs.Qp, a *verbs.Attr, mask verbs.AttrMask) {
	has := func(m verbs.AttrMask) bool { return mask&m != 0 }
	t, reads, rights := e.Transport(), e.Reads(), e.Rights()
	if has(verbs.MaskPMTU) {
		t = t.WithPmtu(uint32(a.PMTU))
	}
	if has(verbs.MaskMinRNRTimer) {
		t = t.WithMinRnrTimer(uint32(a.MinRNRTimer))
	}
	if has(verbs.MaskTimeout) {
		t = t.WithTimeout(uint32(a.Timeout))
	}
	if has(verbs.MaskRetryCnt) {
		t = t.WithRetryCnt(uint32(a.RetryCnt))
	}
	if has(verbs.MaskRNRRetry) {
		t = t.WithRnrRetry(uint32(a.RNRRetry))
	}
	e.SetTransport(t)
	if has(verbs.MaskMaxRdAtomic) {
		reads = reads.WithMaxRdAtomic(uint32(a.MaxRdAtomic))
	}
	if has(verbs.MaskMaxDestRdAtomic) {
		reads = reads.WithMaxDestRdAtomic(uint32(a.MaxDestRdAtomic))
	}
	e.SetReads(reads)
	if has(verbs.MaskAccess) {
		rights = rights.WithAllowWrite(a.Access&verbs.AccessRemoteWrite != 0).WithAllowRead(a.Access&verbs.AccessRemoteRead != 0).
			WithAllowAtomic(a.Access&verbs.AccessRemoteAtomic != 0)
	}
	if has(verbs.MaskSelective) {
		rights = rights.WithSelective(a.Selective)
	}
	e.SetRights(rights)
	if has(verbs.MaskDestQPN) {
		e.SetDest(regs.QpDest(0).WithDestQpn(a.DestQPN))
	}
	if has(verbs.MaskSQPSN) {
		e.SetSendPsn(regs.QpSendPsn(0).WithSqPsn(uint32(a.SQPSN)))
	}
	if has(verbs.MaskRQPSN) {
		e.SetRecvPsn(regs.QpRecvPsn(0).WithRqPsn(uint32(a.RQPSN)))
	}
	if has(verbs.MaskPKey) {
		e.SetPartition(regs.QpPartition(0).WithPkey(uint32(a.PKey)))
	}
	if has(verbs.MaskQKey) {
		e.SetQkey(a.QKey)
	}
}

// writeAV writes the way to the peer.
func (q *QP) writeAV(e regs.Qp, av *verbs.AddressVector) error {
	hop, err := q.d.resolve(av)
	if err != nil {
		return err
	}
	e.SetRoute(regs.QpRoute(0).WithNode(uint32(hop.Node)).WithPort(uint32(hop.Port)).WithTclass(uint32(av.TClass)).WithHopLimit(uint32(av.HopLimit)))
	e.SetPath(regs.QpPath(0).WithMac(regs.MACWord(hop.MAC)))
	high, low := regs.AddrWords(av.Src)
	e.SetSrcAddr(high)
	e.SetSrcAddrLow(low)
	high, low = regs.AddrWords(av.Dst)
	e.SetDstAddr(high)
	e.SetDstAddrLow(low)
	return nil
}

// resolve checks an address vector and asks for the way to its destination.
func (d *Device) resolve(av *verbs.AddressVector) (Hop, error) {
	if !av.Src.IsValid() || !av.Dst.IsValid() || av.Src.Unmap().Is4() != av.Dst.Unmap().Is4() {
		return Hop{}, fmt.Errorf("card: from %v to %v: give two addresses of one family", av.Src, av.Dst)
	}
	if d.config.Resolve == nil {
		return Hop{}, fmt.Errorf("card: the way to %v is not known: set Resolve of driver.Config", av.Dst.Unmap())
	}
	hop, err := d.config.Resolve(av.Dst.Unmap())
	if err == nil && (hop.Node < 0 || hop.Node > regs.NodesNodeCount || hop.Port < 0 || hop.Port >= regs.PortsCount) {
		err = fmt.Errorf("card: the way to %v leads to node %d, port %d: use nodes up to %d and ports 0 to %d", av.Dst, hop.Node, hop.Port, regs.NodesNodeCount, regs.PortsCount-1)
	}
	return hop, err
}

// end ends the queue pair of the card in any state. Its work requests vanish without a completion.
func (q *QP) end() error {
	if err := q.modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState); err != nil {
		return err
	}
	q.d.give(&q.d.free.qps, q.num, 1)
	q.free()
	return nil
}

func (q *QP) free() {
	for _, r := range []*ring{&q.sq, &q.rq, &q.table} {
		r.free(q.d)
	}
}
