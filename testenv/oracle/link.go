// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"errors"
	"fmt"
	"slices"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	// guard is how many bytes around a message must stay as they were.
	guard = 64
	// region is the size of each side's source and sink: all slots of a case.
	region = MaxSize + 4096
	// maxCount is the most messages at a time, and the depth of all queues.
	maxCount = 64

	udQKey = 0x11111111
)

// end is what one side has on a link.
type end struct {
	side      Side
	local     verbs.Endpoint
	pd        verbs.PD
	sendCQ    verbs.CQ
	recvCQ    verbs.CQ
	srq       verbs.SRQ
	source    verbs.DM // memory that it sends, and that peers read
	sink      verbs.DM // memory that it receives into, and that peers write
	window    verbs.MW
	windowKey uint32
	qp        verbs.QP
	ah        verbs.AH // UD, to the peer
	cleanup   []func() error
}

// atEnd has close undo what was made, in the reverse order.
func (e *end) atEnd(undo func() error) { e.cleanup = append(e.cleanup, undo) }

func (e *end) close() error {
	var errs []error
	for _, undo := range slices.Backward(e.cleanup) {
		errs = append(errs, undo())
	}
	e.cleanup = nil
	return errors.Join(errs...)
}

// newEnd makes all that a side needs for a link, with the queue pair in INIT. rights are what peers
// may do through it.
func newEnd(s Side, l Link, psn rocev2.PSN, rights verbs.Access) (e *end, err error) {
	e = &end{side: s, local: verbs.Endpoint{PSN: psn}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", s.Name(), err), e.close())
		}
	}()
	if e.local.Addr, err = s.Addr(l.V6); err != nil {
		return e, err
	}
	if err := e.makeQueues(l); err != nil {
		return e, err
	}
	if err := e.makeMemory(l); err != nil {
		return e, err
	}
	e.qp, err = e.pd.CreateQP(verbs.QPInit{
		Type: l.Service, SendCQ: e.sendCQ, RecvCQ: e.recvCQ, SRQ: e.srq,
		MaxSend: maxCount, MaxRecv: maxCount, MaxSendSGE: 1, MaxRecvSGE: 1,
	})
	if err != nil {
		return e, err
	}
	e.atEnd(e.qp.Destroy)
	e.local.QPN = e.qp.QPN()
	if l.Service == verbs.UD {
		e.local.QKey = udQKey
	}
	return e, verbs.ToInit(e.qp, e.local, verbs.Attr{Access: rights})
}

// makeQueues makes the protection domain, unless the side shares one, and the queues next to the queue pair.
func (e *end) makeQueues(l Link) (err error) {
	if shared, ok := e.side.(inDomain); ok {
		e.pd = shared.pd
	} else {
		if e.pd, err = e.side.AllocPD(); err != nil {
			return err
		}
		e.atEnd(e.pd.Free)
	}
	for _, cq := range []*verbs.CQ{&e.sendCQ, &e.recvCQ} {
		if *cq, err = e.side.CreateCQ(2 * maxCount); err != nil {
			return err
		}
		e.atEnd((*cq).Destroy)
	}
	if l.SRQ {
		if e.srq, err = e.pd.CreateSRQ(maxCount, 1); err != nil {
			return err
		}
		e.atEnd(e.srq.Destroy)
	}
	return nil
}

func (e *end) makeMemory(l Link) (err error) {
	// Odd offsets in the page, so that messages and pages do not end together.
	for m, offset := range map[*verbs.DM]int{&e.source: 8, &e.sink: 24} {
		if *m, err = e.side.NewMemory(e.pd, region, offset, allRights); err != nil {
			return err
		}
		e.atEnd((*m).Deregister)
	}
	if l.Service == verbs.RC {
		if e.window, err = e.pd.AllocMW(); err != nil {
			return err
		}
		e.atEnd(e.window.Free)
		e.windowKey = e.window.RKey()
	}
	return nil
}

// attributes are those of the queue pair of a side.
func attributes(l Link, s Side) verbs.Attr {
	a := verbs.Attr{
		PMTU: l.PMTU, Access: peerRights, MaxRdAtomic: 16, MaxDestRdAtomic: 16, MinRNRTimer: 12, RetryCnt: 7, RNRRetry: 7,
	}
	// 4.096 µs × 2^17 is half a second: a starved machine is not taken for a loss. rxe finds the loss of a last packet by this timeout
	// alone, and waiting for it would take for ever.
	a.Timeout = 17
	if _, rxe := s.(*Judge); rxe && l.Netem != "" {
		a.Timeout = 14
	}
	return a
}

// connect takes the queue pair to RTS. change, unless nil, changes the attributes first.
func (e *end) connect(l Link, remote verbs.Endpoint, change func(*verbs.Attr)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", e.side.Name(), err)
		}
	}()
	if l.Service == verbs.UD {
		if e.ah, err = e.pd.CreateAH(verbs.AddressVector{Src: e.local.Addr, Dst: remote.Addr}); err != nil {
			return err
		}
		e.atEnd(e.ah.Destroy)
	}
	a := attributes(l, e.side)
	if change != nil {
		change(&a)
	}
	return verbs.Connect(e.qp, e.local, remote, a)
}

// connectPair makes a link between two sides. PSNs wrap on the way: both start close to 2^24. change,
// unless nil, changes the attributes of both.
func connectPair(a, b Side, l Link, rights verbs.Access, change func(*verbs.Attr)) (ends [2]*end, err error) {
	for i, s := range []Side{a, b} {
		if ends[i], err = newEnd(s, l, 0xFFFFF0+rocev2.PSN(i), rights); err != nil {
			if i > 0 {
				err = errors.Join(err, ends[0].close())
			}
			return ends, err
		}
	}
	err = errors.Join(ends[0].connect(l, ends[1].local, change), ends[1].connect(l, ends[0].local, change))
	if err != nil {
		err = errors.Join(err, ends[0].close(), ends[1].close())
	}
	return ends, err
}
