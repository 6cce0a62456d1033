// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// distributor returns a distribution region of the hub, whose first side is connected to the origin,
// and each further one to a destination.
func distributor(t testing.TB, hub, to []*side) (*nic.Distribution, error) {
	t.Helper()
	var g mr.Group
	for i := range to {
		g = append(g, mr.Destination{QPN: hub[1+i].qp.QPN(), VA: to[i].va, RKey: to[i].key})
	}
	return hub[0].pd.(*nic.PD).RegDistribution(mr.Spec{Host: hub[0].buf, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite}, g)
}

// One WRITE reaches four hosts. The link of the origin carries the payload once, and that of the hub
// four times.
func TestDistributionHosts(t *testing.T) {
	const size, destinations = 1 << 20, 4
	hosts := engines.New(t, topo.Spec{Hosts: topo.Hosts(2 + destinations)}, "--policy", "mode=fixed")
	for _, h := range hosts {
		h.MustOpen(t, nic.Options{})
	}
	origin := newSide(t, hosts[0], verbs.RC, size)
	peers := []*side{origin}
	for _, h := range hosts[2:] {
		peers = append(peers, newSide(t, h, verbs.RC, size))
	}
	hub := []*side{newSide(t, hosts[1], verbs.RC, size)}
	for range destinations {
		o := *hub[0]
		o.qp = o.another(t)
		hub = append(hub, &o)
	}
	for i, p := range peers {
		if err := engines.ConnectAttr(hub[i].qp, p.qp, hosts[1].Addr(false), p.host.Addr(false), func(attr *verbs.Attr) {
			attr.PMTU, attr.Timeout = rocev2.PMTU1024, 20 // 4 s: one of six engines may stand still for longer than patient
		}); err != nil {
			t.Fatal(err)
		}
	}
	d, err := distributor(t, hub, peers[1:])
	if err != nil {
		t.Fatal(err)
	}
	for i := range origin.buf {
		origin.buf[i] = byte(i * 7 >> 3)
	}
	want := bytes.Clone(origin.buf[mr.ReportLen:])
	before := sentBytes(t, hosts)
	if err := origin.qp.PostRecv(&verbs.RecvWR{SGL: origin.sge(0, mr.ReportLen)}); err != nil {
		t.Fatal(err)
	}
	const n = size - mr.ReportLen
	origin.post(t, &verbs.SendWR{
		ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: origin.sge(mr.ReportLen, n), RemoteAddr: d.VA() + mr.ReportLen, RKey: d.RKey(),
	})
	// If the ACK of the WRITE is lost, the report is the first.
	both := [2]verbs.Completion{origin.poll(t), origin.poll(t)}
	written, report := both[0], both[1]
	if written.Op == verbs.OpRecv {
		written, report = report, written
	}
	if written.WRID != 1 || written.Op != verbs.OpWrite || written.Status != verbs.StatusSuccess {
		t.Fatalf("%+v", both)
	}
	if report.Op != verbs.OpRecv || report.Status != verbs.StatusSuccess || report.Bytes != mr.ReportLen {
		t.Fatalf("%+v", both)
	}
	r, err := mr.ParseReport(origin.buf[:mr.ReportLen])
	if want := (mr.Report{VA: d.VA() + mr.ReportLen, Length: n, Destinations: destinations}); err != nil || r != want {
		t.Fatalf("%+v, %v\n%s", r, err, dump(hub[0].dev))
	}
	for i, p := range peers[1:] {
		if !bytes.Equal(p.buf[mr.ReportLen:], want) {
			t.Errorf("destination %d has other data", i)
		}
	}
	after := sentBytes(t, hosts)
	// A packet of 1024 bytes has up to 90 of headers. Packets that were lost are sent again.
	for i, copies := range []uint64{1, destinations} {
		sent, again := after[i]-before[i], counter(hosts[i].Dev, "tx_retransmits")
		t.Logf("%s: %d bytes for a message of %d, %d packets again", hosts[i].Name(), sent, n, again)
		if sent < copies*n || sent > copies*n*5/4+again*1200 {
			t.Errorf("%s has sent %d bytes for a message of %d", hosts[i].Name(), sent, n)
		}
	}
	if c := [1]verbs.Completion{}; hub[0].cq.Poll(c[:]) != 0 {
		t.Errorf("the hub's application has the completion %+v", c[0])
	}
	if err := d.Deregister(); err != nil {
		t.Error(err)
	}
}

// sentBytes is what interfaces of hosts have sent.
func sentBytes(t testing.TB, hosts []*engines.Host) (n []uint64) {
	t.Helper()
	for _, h := range hosts {
		l, err := h.Netlink().LinkByName(topo.IfName)
		if err != nil {
			t.Fatal(err)
		}
		n = append(n, l.Attrs().Statistics.TxBytes)
	}
	return n
}

// RegDistribution refuses what cannot be served. A region whose messages have no report stays, until
// the queue pair that does not respond is destroyed.
func TestDistributionEnd(t *testing.T) {
	dev := devices.Loopback(t)
	v, _ := dev.AllocPD()
	pd := v.(*nic.PD)
	cq, _ := dev.CreateCQ(16)
	pair, err := loopPair(dev, pd, cq)
	if err != nil {
		t.Fatal(err)
	}
	a, b := pair[0], pair[1]
	if pair, err = loopPair(dev, pd, cq); err != nil {
		t.Fatal(err)
	}
	hub, leaf := pair[0], pair[1]
	memory := make([]byte, 4096)
	m, err := pd.RegMR(make([]byte, 4096), verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	good := mr.Spec{Host: memory, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite}
	group := mr.Group{{QPN: hub.QPN(), VA: m.VA(), RKey: m.RKey()}}
	invalidatable, local := good, good
	invalidatable.Invalidatable, local.Access = true, verbs.AccessLocalWrite
	for name, c := range map[string]struct {
		s mr.Spec
		g mr.Group
	}{"no memory": {mr.Spec{Access: good.Access}, group}, "invalidatable": {invalidatable, group}, "no remote write": {local, group}, "no group": {good, nil}, "unknown queue pair": {good, mr.Group{{QPN: 0xabcdef}}}} {
		if d, err := pd.RegDistribution(c.s, c.g); err == nil || d != nil {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}

	d, err := pd.RegDistribution(good, group)
	if err != nil {
		t.Fatal(err)
	}
	// The destination has no receive: the queue pair tries again for ever.
	err = a.PostSend(&verbs.SendWR{Op: verbs.OpWriteImm, RemoteAddr: d.VA(), RKey: d.RKey(), SGL: []verbs.SGE{{Addr: m.VA(), Len: 8, LKey: m.LKey()}}})
	if err = errors.Join(err, b.PostRecv(&verbs.RecvWR{})); err != nil {
		t.Fatal(err)
	}
	if c, err := engines.PollOne(cq, testkit.Patience); err != nil || c.Op != verbs.OpRecvWriteImm || c.QPN != b.QPN() {
		t.Fatalf("%+v, %v", c, err)
	}
	if err := d.Deregister(); !errors.Is(err, verbs.ErrBusy) {
		t.Fatalf("with a message without a report: %v", err)
	}
	if err := errors.Join(hub.Destroy(), leaf.Destroy()); err != nil {
		t.Fatal(err)
	}
	if err := a.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{{Addr: m.VA(), Len: mr.ReportLen, LKey: m.LKey()}}}); err != nil {
		t.Fatal(err)
	}
	if c, err := engines.PollOne(cq, testkit.Patience); err != nil || c.Op != verbs.OpRecv || c.QPN != a.QPN() {
		t.Fatalf("report: %+v, %v", c, err)
	}
	s, err := d.Stats()
	if err != nil || s.Arrived != 1 || s.Failed[0] != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := d.Deregister(); err != nil {
		t.Error(err)
	}
	if d, err = pd.RegDistribution(good, mr.Group{{QPN: a.QPN(), VA: m.VA(), RKey: m.RKey()}}); err != nil {
		t.Fatal(err)
	}
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Deregister(); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

// loopPair makes two queue pairs of RC that are connected to each other over a loopback device.
func loopPair(dev *nic.Device, pd verbs.PD, cq verbs.CQ) (pair [2]verbs.QP, err error) {
	port, err := dev.Port()
	if err != nil {
		return pair, err
	}
	for i := range pair {
		if pair[i], err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}); err != nil {
			return pair, err
		}
	}
	return pair, engines.Connect(pair[0], pair[1], port.GIDs[0], port.GIDs[0], rocev2.PMTU1024)
}

// One WRITE reaches two destinations. All are on one loopback device here; on attached interfaces
// they are on hosts of their own.
func ExamplePD_RegDistribution() {
	dev, err := nic.OpenLoopback(nic.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	pd, _ := dev.AllocPD()
	cq, _ := dev.CreateCQ(16)
	const rights = verbs.AccessLocalWrite | verbs.AccessRemoteWrite

	var group mr.Group
	var copies [2][]byte
	for i := range copies {
		copies[i] = make([]byte, 64)
		there, err := pd.RegMR(copies[i], rights)
		if err != nil {
			log.Fatal(err)
		}
		pair, err := loopPair(dev, pd, cq)
		if err != nil {
			log.Fatal(err)
		}
		group = append(group, mr.Destination{QPN: pair[0].QPN(), VA: there.VA(), RKey: there.RKey()})
	}
	d, err := pd.(*nic.PD).RegDistribution(mr.Spec{Host: make([]byte, 64), Access: rights}, group)
	if err != nil {
		log.Fatal(err)
	}

	buf := append([]byte("to all"), make([]byte, mr.ReportLen)...)
	own, err := pd.RegMR(buf, verbs.AccessLocalWrite)
	if err != nil {
		log.Fatal(err)
	}
	pair, err := loopPair(dev, pd, cq)
	if err != nil {
		log.Fatal(err)
	}
	origin := pair[0]
	err = errors.Join(
		origin.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{{Addr: own.VA() + 6, Len: mr.ReportLen, LKey: own.LKey()}}}),
		origin.PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{{Addr: own.VA(), Len: 6, LKey: own.LKey()}}, RemoteAddr: d.VA(), RKey: d.RKey()}),
	)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := engines.PollOne(cq, testkit.Patience); err != nil { // the report
		log.Fatal(err)
	}
	r, err := mr.ParseReport(buf[6:])
	fmt.Printf("%s, %s; delivered: %v, %v\n", copies[0][:6], copies[1][:6], r.Delivered(), err)
	// Output: to all, to all; delivered: true, <nil>
}
