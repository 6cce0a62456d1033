// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	copies    = 4
	dataBytes = 1 << 20
	dataAddr  = 1 << 30 // in the memory of each card, and its address for peers
	second    = qp.Time(1e9)
)

// host is a card with its driver.
type host struct {
	number int
	model  *card.Model
	card   *hwoffload.Card
	dev    *driver.Device
	pd     *driver.PD
	cq     verbs.CQ
	region *driver.MR
}

func (h *host) addr() netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(h.number)}) }

// newHost makes a card. Host 1 reaches host n by port n - 2, the others reach it by port 0.
func newHost(number int) (*host, error) {
	h := &host{number: number, model: card.New()}
	var err error
	if h.card, err = hwoffload.Open(h.model); err != nil {
		return nil, err
	}
	h.dev, err = driver.New(h.card, driver.Config{RingBytes: 1 << 20, Resolve: func(dst netip.Addr) (driver.Hop, error) {
		to := dst.As4()[3]
		hop := driver.Hop{MAC: [6]byte{2, 5: to}}
		if number == 1 {
			hop.Port = int(to) - 2
		}
		return hop, nil
	}})
	if err != nil {
		return nil, err
	}
	for port := range copies {
		err = errors.Join(err, h.dev.SetPort(port, [6]byte{2, 5: byte(number)}))
	}
	pd, err1 := h.dev.AllocPD()
	cq, err2 := h.dev.CreateCQ(64)
	if err = errors.Join(err, err1, err2); err != nil {
		return nil, err
	}
	h.pd, h.cq = pd.(*driver.PD), cq
	h.region, err = h.dev.RegMR(driver.Spec{PD: h.pd.Number(), Addr: dataAddr, VA: dataAddr, Len: 2 * dataBytes, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite})
	return h, err
}

// connect makes a queue pair on each of two hosts.
func connect(a, b *host) (x, y *driver.QP, err error) {
	create := func(h *host) (*driver.QP, error) {
		q, err := h.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: h.cq, RecvCQ: h.cq})
		if err != nil {
			return nil, err
		}
		return q.(*driver.QP), nil
	}
	x, err1 := create(a)
	y, err2 := create(b)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, err
	}
	ends := [2]verbs.Endpoint{{Addr: a.addr(), QPN: x.QPN(), PSN: 1}, {Addr: b.addr(), QPN: y.QPN(), PSN: 1}}
	return x, y, errors.Join(verbs.Connect(x, ends[0], ends[1], verbs.DefaultAttr()), verbs.Connect(y, ends[1], ends[0], verbs.DefaultAttr()))
}

// showDistribution has a card forward one WRITE to four hosts, of which one is dead (S2.7).
func showDistribution(ctx context.Context, _ *cardProduct) error {
	step("Distribution: one WRITE of 1 MB leaves a card (its model) on four ports. The host at port 3 is dead.")
	net := card.NewVirtual(1)
	hub, err := newHost(1)
	if err != nil {
		return err
	}
	var hosts []*host
	var group []driver.Destination
	for i := range copies {
		h, err := newHost(2 + i)
		if err != nil {
			return err
		}
		net.Connect(hub.model, i, h.model, 0)
		x, _, err := connect(hub, h)
		if err != nil {
			return err
		}
		hosts = append(hosts, h)
		group = append(group, driver.Destination{QP: x, VA: h.region.VA(), RKey: h.region.RKey()})
	}
	dead := hosts[3].number
	net.Drop = func(frame []byte) bool { return frame[5] == byte(dead) }
	g, err := hub.dev.NewGroup(group...)
	if err != nil {
		return err
	}
	target, err := hub.dev.RegMR(driver.Spec{PD: hub.pd.Number(), Addr: dataAddr, VA: dataAddr, Len: dataBytes, Group: g, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite})
	if err != nil {
		return err
	}
	report, err := sendOne(ctx, net, hub, hosts[0], target)
	if err != nil {
		return err
	}
	want := make([]byte, dataBytes)
	if _, err := hub.card.DDR().ReadAt(want, dataAddr); err != nil {
		return err
	}
	for i, h := range hosts {
		got := make([]byte, dataBytes)
		if _, err := h.card.DDR().ReadAt(got, dataAddr); err != nil {
			return err
		}
		fmt.Printf("  port %d: %v; the data is there: %v\n", i, report.Status[i], bytes.Equal(got, want))
		if bytes.Equal(got, want) != (report.Status[i] == verbs.StatusSuccess) || (h.number == dead) == bytes.Equal(got, want) {
			return fmt.Errorf("port %d: status %v, and the data is there: %v", i, report.Status[i], bytes.Equal(got, want))
		}
	}
	return nil
}

// sendOne has a host write to the distribution region, and waits for its report.
func sendOne(ctx context.Context, net *card.Virtual, hub, origin *host, target *driver.MR) (r mr.Report, err error) {
	x, _, err := connect(origin, hub)
	if err != nil {
		return r, err
	}
	data := make([]byte, dataBytes)
	rng := rand.NewChaCha8([32]byte{})
	_, _ = rng.Read(data) // never fails
	const source, reportAddr = dataAddr + dataBytes, 3 << 30
	if _, err := origin.card.DDR().WriteAt(data, source); err != nil {
		return r, err
	}
	reports, err := origin.dev.RegMR(driver.Spec{PD: origin.pd.Number(), Addr: reportAddr, VA: reportAddr, Len: 4096, Access: verbs.AccessLocalWrite})
	if err != nil {
		return r, err
	}
	err = errors.Join(
		x.PostRecv(&verbs.RecvWR{ID: 2, SGL: []verbs.SGE{{Addr: reports.VA(), Len: mr.ReportLen, LKey: reports.LKey()}}}),
		x.PostSend(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: target.VA(), RKey: target.RKey(),
			SGL: []verbs.SGE{{Addr: source, Len: dataBytes, LKey: origin.region.LKey()}}}),
	)
	if err != nil {
		return r, err
	}
	var done [2]verbs.Completion
	have := 0
	if err := net.Run(60*second, func() bool {
		have += origin.cq.Poll(done[have:])
		return have == 2 || ctx.Err() != nil
	}); err != nil || ctx.Err() != nil {
		return r, errors.Join(err, ctx.Err())
	}
	for _, c := range done[:have] {
		if c.Status != verbs.StatusSuccess {
			return r, fmt.Errorf("work request %d: %v", c.WRID, c.Status)
		}
	}
	b := make([]byte, mr.ReportLen)
	if _, err := origin.card.DDR().ReadAt(b, reportAddr); err != nil {
		return r, err
	}
	return mr.ParseReport(b)
}
