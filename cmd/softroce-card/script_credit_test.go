// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/netip"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// cardPair serves two cards, nodes 1 and 2, whose ports are joined. They understand the option and
// pre-credit, have a connection, and each sends a message every 10 ms.
func cardPair(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: cardpair SOCKET SOCKET")
	}
	var wires [2][regs.PortsCount]card.Wire
	wires[0][0], wires[1][0] = card.Cable(256)
	ends := [2]*creditEnd{}
	for i := range ends {
		ends[i] = newCreditEnd(ts, i)
	}
	for i, e := range ends {
		ts.Check(verbs.Connect(e.qp, e.at(i), ends[1-i].at(1-i), verbs.DefaultAttr()))
		run := card.Start(e.m, wires[i])
		ts.Defer(func() { _ = run.Close() })
	}
	for i, e := range ends {
		l, err := net.Listen("unix", ts.MkAbs(args[i]))
		ts.Check(err)
		x := &liveModel{m: e.m, l: l, end: make(chan struct{})}
		x.done.Go(func() { _ = hwoffload.Serve(l, x.m) })
		x.done.Go(func() { e.send(x.end, ends[1-i].mr) })
		ts.Defer(x.stop)
	}
}

// creditEnd is one end of the connection.
type creditEnd struct {
	m  *card.Model
	cq verbs.CQ
	qp verbs.QP
	mr *driver.MR
}

func creditAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}) }

func newCreditEnd(ts *testscript.TestScript, i int) *creditEnd {
	e := &creditEnd{m: card.NewAt(loader.Monotonic)}
	c, err := hwoffload.Open(e.m)
	ts.Check(err)
	mac := func(i int) [6]byte { return [6]byte{2, 0, 0, 0, 0, byte(i + 1)} }
	d, err := driver.New(c, driver.Config{RingBytes: 1 << 20, Resolve: func(netip.Addr) (driver.Hop, error) {
		return driver.Hop{MAC: mac(1 - i), Node: 2 - i}, nil
	}})
	ts.Check(err)
	ts.Check(d.SetPort(0, mac(i)))
	ts.Check(d.SetNode(2-i, creditAddr(1-i), 0))
	peer := regs.DestOf(c, 1-i)
	peer.SetTxToken(uint64(10 + i))
	peer.SetRxToken(uint64(11 - i))
	peer.SetCapsWord(regs.DestCapsWord(0).WithCaps(1 | 4)) // SR_CAP_STAMP, SR_CAP_CREDIT
	e.cq, err = d.CreateCQ(64)
	ts.Check(err)
	pd, err := d.AllocPD()
	ts.Check(err)
	e.qp, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq, MaxSend: 16, MaxRecv: 1, MaxSendSGE: 1, MaxRecvSGE: 1})
	ts.Check(err)
	e.mr, err = d.RegMR(driver.Spec{PD: pd.(*driver.PD).Number(), Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite, Addr: 1 << 28, Len: 4096, VA: 4096})
	ts.Check(err)
	return e
}

func (e *creditEnd) at(i int) verbs.Endpoint {
	return verbs.Endpoint{Addr: creditAddr(i), QPN: e.qp.QPN(), PSN: 1}
}

// send sends until the end.
func (e *creditEnd) send(end chan struct{}, to *driver.MR) {
	var done [16]verbs.Completion
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		select {
		case <-end:
			tick.Stop()
			return
		case <-tick.C:
		}
		_ = e.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{{Addr: 4096, Len: 4000, LKey: e.mr.LKey()}}, RemoteAddr: 4096, RKey: to.RKey()}) // a full queue is no loss
		e.cq.Poll(done[:])
	}
}
