// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// star has a card whose four ports lead to four peers. An origin on the first peer writes to a
// distribution region of the card.
type star struct {
	*world
	card   *side
	to     [4]*endpoint // ends on the card, each to one peer
	at     [4]*endpoint // ends on the peers
	group  *driver.Group
	region *driver.MR
	origin *endpoint
	twin   *endpoint // end on the card, to the origin
}

// Places: the origin's data and its reports are in the region of its peer, behind what is
// distributed.
const (
	distributionVA   = 0x5000_0000_0000
	distributionAddr = 9 << 28 // on the card, in another window than the plain regions
	spread           = 60000   // bytes that are distributed at most
	sourceOff        = spread
	reportOff        = regionBytes - 4096
)

func newStar(t *testing.T, seed uint64) *star {
	t.Helper()
	s := &star{world: &world{t: t, net: card.NewVirtual(seed)}}
	s.card = s.addSide()
	pd := s.card.newPD()
	var list []driver.Destination
	for i := range 4 {
		peer := s.addSide()
		peer.port = i
		if err := s.card.d.SetPort(i, s.card.mac); err != nil {
			t.Fatal(err)
		}
		s.net.Connect(s.card.m, i, peer.m, 0)
		s.to[i], s.at[i] = s.card.endpointIn(pd, verbs.RC), peer.endpoint(verbs.RC)
		s.join(s.to[i], s.at[i], 0, rocev2.PMTU1024)
		list = append(list, driver.Destination{QP: s.to[i].qp, VA: s.at[i].mr.VA(), RKey: s.at[i].mr.RKey()})
	}
	s.origin, s.twin = s.at[0].side.endpoint(verbs.RC), s.card.endpointIn(pd, verbs.RC)
	s.join(s.origin, s.twin, 1, rocev2.PMTU1024)
	var err error
	if s.group, err = s.card.d.NewGroup(list...); err != nil {
		t.Fatal(err)
	}
	s.region = s.to[0].register(driver.Spec{PD: pd.Number(), Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite, Addr: distributionAddr,
		Len: spread, VA: distributionVA, Group: s.group})
	return s
}

// send has the origin write n bytes to the offset of the region, and returns them.
func (s *star) send(id uint64, off, n int) []byte {
	s.t.Helper()
	data := s.origin.fill(sourceOff, n, id)
	s.origin.receive(id, s.origin.sge(reportOff, mr.ReportLen))
	s.origin.post(&verbs.SendWR{ID: id, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{s.origin.sge(sourceOff, n)},
		RemoteAddr: distributionVA + uint64(off), RKey: s.region.RKey()})
	return data
}

// report waits for the report of a message.
func (s *star) report(id uint64) mr.Report {
	s.t.Helper()
	s.origin.completes(verbs.Completion{WRID: id, Op: verbs.OpRecv, Bytes: mr.ReportLen})
	return s.readReport()
}

// completesWithReport waits for a message and its report. Where the ACK of the message is lost, the report is there before it.
func (s *star) completesWithReport(id uint64) mr.Report {
	s.t.Helper()
	got, qpn := s.origin.poll(2), s.origin.qp.QPN()
	for _, want := range []verbs.Completion{{WRID: id, QPN: qpn, Op: verbs.OpWrite}, {WRID: id, QPN: qpn, Op: verbs.OpRecv, Bytes: mr.ReportLen}} {
		if !slices.Contains(got, want) {
			s.t.Errorf("completions %+v, want %+v among them", got, want)
		}
	}
	return s.readReport()
}

func (s *star) readReport() mr.Report {
	s.t.Helper()
	r, err := mr.ParseReport(s.origin.read(reportOff, mr.ReportLen))
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *star) stats() driver.GroupStats {
	s.t.Helper()
	g, err := s.group.Stats()
	if err != nil {
		s.t.Fatal(err)
	}
	return g
}

// One WRITE makes four copies, on four ports, and the origin gets their statuses (S2.7).
func TestDistribution(t *testing.T) {
	s := newStar(t, 1)
	data := s.send(1, 100, 50000)
	s.origin.completes(verbs.Completion{WRID: 1, Op: verbs.OpWrite})
	if r, want := s.report(1), (mr.Report{VA: distributionVA + 100, Length: 50000, Destinations: 4}); r != want {
		t.Errorf("report %+v, want %+v", r, want)
	}
	for _, e := range s.at {
		e.wants(100, data, "a destination")
	}
	s.quiet() // the last ACKs
	if g, want := s.stats(), (driver.GroupStats{Arrived: 1, Reports: 1, Delivered: [4]uint64{1, 1, 1, 1}}); g != want {
		t.Errorf("counters %+v, want %+v", g, want)
	}
	if err := s.group.Free(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a group with a region was freed: %v", err)
	}
	if err := errors.Join(s.region.Deregister(), s.group.Free()); err != nil {
		t.Error(err)
	}
}

// A queue pair of the group that was reset and connected again gets messages again.
func TestDistributionAfterReset(t *testing.T) {
	s := newStar(t, 1)
	for _, e := range []*endpoint{s.to[1], s.at[1]} {
		if err := e.qp.Modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState); err != nil {
			t.Fatal(err)
		}
	}
	s.join(s.to[1], s.at[1], 0, rocev2.PMTU1024)
	data := s.send(1, 100, 5000)
	s.origin.completes(verbs.Completion{WRID: 1, Op: verbs.OpWrite})
	if r := s.report(1); !r.Delivered() {
		t.Errorf("report %+v", r)
	}
	for _, e := range s.at {
		e.wants(100, data, "a destination")
	}
}

// What a distribution sends by a queue pair takes no places of the driver's ring.
func TestDistributionLeavesTheRing(t *testing.T) {
	s := newStar(t, 1)
	s.net.Drop = func(frame []byte) bool { return bytes.Equal(frame[:6], s.at[2].mac[:]) }
	const ring = 16
	for id := uint64(1); id <= ring; id++ {
		s.send(id, 0, 10)
		s.origin.completes(verbs.Completion{WRID: id, Op: verbs.OpWrite})
	}
	to := s.to[2]
	before := regs.QpOf(s.card.card, int(to.qp.QPN())).SqConsumed()
	to.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{to.sge(0, 10)}, RemoteAddr: regionVA, RKey: s.at[2].mr.RKey()})
	if n := regs.QpOf(s.card.card, int(to.qp.QPN())).SqConsumed() - before; n != 1 {
		t.Errorf("the card has read %d WQEs", n)
	}
}

// A dead destination delays no other one. Its status is in the report.
func TestDistributionDeadPort(t *testing.T) {
	s := newStar(t, 1)
	s.net.Drop = func(frame []byte) bool { return bytes.Equal(frame[:6], s.at[2].mac[:]) }
	data := s.send(1, 0, 3000)
	s.origin.completes(verbs.Completion{WRID: 1, Op: verbs.OpWrite})
	if err := s.net.Run(second/1000, func() bool {
		got := make([]byte, len(data))
		for _, i := range []int{0, 1, 3} {
			copy(got, s.at[i].read(0, len(data)))
			if !bytes.Equal(got, data) {
				return false
			}
		}
		return true
	}); err != nil {
		t.Fatalf("the other destinations have no data within 1 ms: %v", err)
	}
	if s.stats().Reports != 0 {
		t.Error("a report although one destination has no status")
	}
	want := mr.Report{VA: distributionVA, Length: 3000, Destinations: 4, Status: [4]verbs.Status{2: verbs.StatusRetryExceeded}}
	if r := s.report(1); r != want {
		t.Errorf("report %+v, want %+v", r, want)
	}
	data = s.send(2, 4000, 500) // the queue pair to the dead one is in ERR
	s.origin.completes(verbs.Completion{WRID: 2, Op: verbs.OpWrite})
	want = mr.Report{Message: 1, VA: distributionVA + 4000, Length: 500, Destinations: 4, Status: [4]verbs.Status{2: verbs.StatusWRFlushed}}
	if r := s.report(2); r != want {
		t.Errorf("report %+v, want %+v", r, want)
	}
	s.at[3].wants(4000, data, "destination 3")
	s.quiet()
	if g := s.stats(); g.Delivered != [4]uint64{2, 2, 0, 2} || g.Failed != [4]uint64{0, 0, 2, 0} || g.Reports != 2 {
		t.Errorf("counters %+v", g)
	}
}

// Loss, duplicates and reordering change nothing, and neither do work requests of the driver on
// the queue pairs of the group: completions go to the driver's queue for its own only.
func TestDistributionInCompany(t *testing.T) {
	s := newStar(t, 7)
	s.net.Faults = card.Faults{Loss: 0.03, Duplicate: 0.03, Reorder: 0.1, ReorderBy: 20000}
	const own = 55000 // an offset that is not distributed
	for id := uint64(1); id <= 12; id++ {
		data := s.send(id, int(id)*3000, 2900)
		for i, e := range s.to {
			wr := &verbs.SendWR{ID: id<<40 | uint64(i), Op: verbs.OpWrite, SGL: []verbs.SGE{e.sge(own, 8)}, RemoteAddr: e.peer.mr.VA() + own, RKey: e.peer.mr.RKey()}
			if id%3 == 0 {
				wr.Flags = verbs.Signaled
			}
			e.post(wr)
		}
		if r := s.completesWithReport(id); r.Message != uint32(id-1) || !r.Delivered() {
			t.Errorf("report %+v of message %d", r, id-1)
		}
		for i, e := range s.at {
			e.wants(int(id)*3000, data, "a destination")
			if id%3 == 0 {
				s.to[i].completes(verbs.Completion{WRID: id<<40 | uint64(i), Op: verbs.OpWrite})
			}
		}
	}
	s.quiet()
	for _, e := range s.to {
		if n := e.cq.Poll(make([]verbs.Completion, 8)); n != 0 {
			t.Errorf("%d completions that the driver did not ask for", n)
		}
	}
	if s.net.Lost == 0 {
		t.Error("nothing was lost")
	}
}

// Immediate data goes on to the destinations.
func TestDistributionImmediate(t *testing.T) {
	s := newStar(t, 1)
	s.twin.receive(9)
	for _, e := range s.at {
		e.receive(5)
	}
	s.origin.receive(1, s.origin.sge(reportOff, mr.ReportLen))
	data := s.origin.fill(sourceOff, 2000, 1)
	s.origin.post(&verbs.SendWR{ID: 1, Op: verbs.OpWriteImm, Flags: verbs.Signaled, Imm: 77, SGL: []verbs.SGE{s.origin.sge(sourceOff, 2000)},
		RemoteAddr: distributionVA, RKey: s.region.RKey()})
	s.origin.completes(verbs.Completion{WRID: 1, Op: verbs.OpWriteImm})
	s.twin.completes(verbs.Completion{WRID: 9, Op: verbs.OpRecvWriteImm, Bytes: 2000, HasImm: true, Imm: 77})
	for _, e := range s.at {
		e.completes(verbs.Completion{WRID: 5, Op: verbs.OpRecvWriteImm, Bytes: 2000, HasImm: true, Imm: 77})
		e.wants(0, data, "a destination")
	}
	if r := s.report(1); !r.Delivered() {
		t.Errorf("report %+v", r)
	}
}

// What the region refuses is not forwarded, and an origin without a receive gets no report.
func TestDistributionRefuses(t *testing.T) {
	s := newStar(t, 1)
	if _, err := s.card.d.NewGroup(); err == nil {
		t.Error("a group without destinations")
	}
	if _, err := s.card.d.NewGroup(driver.Destination{QP: s.to[0].qp}, driver.Destination{QP: s.to[0].qp}); err == nil {
		t.Error("a group with one queue pair twice")
	}
	fresh := s.card.newQP(s.twin.pd, verbs.QPInit{Type: verbs.RC, SendCQ: s.twin.cq, RecvCQ: s.twin.cq})
	if _, err := s.card.d.NewGroup(driver.Destination{QP: fresh}); err == nil {
		t.Error("a group with a queue pair in RESET")
	}
	s.origin.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, SGL: []verbs.SGE{s.origin.sge(sourceOff, 8)},
		RemoteAddr: distributionVA + spread - 4, RKey: s.region.RKey()})
	s.origin.completes(verbs.Completion{WRID: 1, Status: verbs.StatusRemoteAccess, Solicited: true})
	s.quiet()
	if g := s.stats(); g != (driver.GroupStats{}) {
		t.Errorf("counters %+v after a refused WRITE", g)
	}
}
