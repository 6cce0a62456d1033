// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"errors"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// A client sees the limits of its process or of its user, whichever is lower, and the rate that the server knows.
func TestAttributes(t *testing.T) {
	most := limits.Defaults()
	most.Process[limits.QPs], most.User[limits.QPs] = 7, 40
	most.Process[limits.MRs], most.User[limits.MRs] = 50, 9
	most.Process[limits.AHs], most.User[limits.AHs] = 1<<40, 1<<40
	most.Process[limits.Bytes], most.User[limits.Bytes] = 1<<40, 1<<41
	most.Process[limits.CQEntries], most.User[limits.CQEntries] = 1000, 2000
	_, dir := serve(t, device.Config{Limits: &most, Rate: func() uint64 { return 25e9 }})
	d := open(t, dir)
	l := d.Limits()
	if l.QPs != 7 || l.MRs != 9 || l.AHs != proto.MaxObjects || l.RegionBytes != 1<<40 ||
		l.CQs != int(most.Process[limits.CQs]) || l.SRQs != 256 || l.MWs != 4096 || l.CQ != 512 {
		t.Errorf("%+v", l)
	}
	testkit.Must1(d.CreateCQ(l.CQ))(t)
	if p := testkit.Must1(d.Port())(t); p.RateBps != 25e9 || p.MAC != [6]byte{} {
		t.Errorf("%+v", p)
	}
	_, dir = serve(t, device.Config{})
	if p := testkit.Must1(open(t, dir).Port())(t); p.RateBps != 0 {
		t.Errorf("without a rate: %+v", p)
	}
}

// The device of an agent has the address and the rate of its interface.
func TestAttributesOfInterface(t *testing.T) {
	h := twoHosts(t)[0]
	d := testkit.Must1(client.Open(t.Context(), topo.IfName, client.Config{RunDir: h.LoaderOptions().RunDir}))(t)
	defer d.Close()
	p := testkit.Must1(d.Port())(t)
	if p.MAC != [6]byte(h.MAC()) || p.RateBps != 10e9 { // which veth says
		t.Errorf("%+v, want the address %s and 10 Gbit/s", p, h.MAC())
	}
}

// The limit of an SRQ is what was set, and 0 once the event has been sent.
func TestLimitOfSRQ(t *testing.T) {
	bothDevices(t, func(t *testing.T, d verbs.Device) {
		pd, cq := testkit.Must1(d.AllocPD())(t), testkit.Must1(d.CreateCQ(16))(t)
		srq := testkit.Must1(pd.CreateSRQ(8, 1))(t)
		limit := func() int { return testkit.Must1(srq.(interface{ Limit() (int, error) }).Limit())(t) }
		testkit.Must(t, srq.PostRecv(&verbs.RecvWR{}))
		testkit.Must(t, srq.SetLimit(1))
		if n := limit(); n != 1 {
			t.Errorf("the limit is %d, not 1", n)
		}
		q := testkit.Must1(pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq}))(t)
		devices.Connect(t, q, q, verbs.DefaultAttr())
		testkit.Must(t, q.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled}))
		devices.Next(t, cq)
		devices.Next(t, cq)
		if n := limit(); n != 0 {
			t.Errorf("the limit is %d after the event", n)
		}
	})
}

// The receiver of a datagram answers its sender with what the receive says.
func TestAnswerToDatagram(t *testing.T) {
	bothDevices(t, func(t *testing.T, d verbs.Device) {
		pd, cq := testkit.Must1(d.AllocPD())(t), testkit.Must1(d.CreateCQ(16))(t)
		buf := make([]byte, 256)
		m := testkit.Must1(pd.RegMR(buf, verbs.AccessLocalWrite))(t)
		sgl := func(at int) []verbs.SGE {
			return []verbs.SGE{{Addr: m.VA() + uint64(at), Len: verbs.GRHLen + 8, LKey: m.LKey()}}
		}
		var qps [2]verbs.QP
		for i := range qps {
			qps[i] = testkit.Must1(pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: cq, RecvCQ: cq}))(t)
			e := verbs.Endpoint{Addr: here, QPN: qps[i].QPN(), QKey: datagramKey}
			testkit.Must(t, verbs.Connect(qps[i], e, e, verbs.DefaultAttr()))
			testkit.Must(t, qps[i].PostRecv(&verbs.RecvWR{SGL: sgl(128 * i)}))
		}
		send := func(from verbs.QP, ah verbs.AH, to uint32) {
			testkit.Must(t, from.PostSend(&verbs.SendWR{Op: verbs.OpSend, AH: ah, RemoteQPN: to, RemoteQKey: datagramKey}))
		}
		send(qps[0], testkit.Must1(pd.CreateAH(verbs.AddressVector{Dst: here, TClass: 0x28}))(t), qps[1].QPN())
		c := devices.Next(t, cq)
		av, err := verbs.SenderOf(buf[128:])
		if err != nil || av.Src != here || av.Dst != here || av.TClass != 0x28 || !c.HasGRH || c.QPN != qps[1].QPN() {
			t.Fatalf("%+v, %v of %+v", av, err, c)
		}
		send(qps[1], testkit.Must1(pd.CreateAH(av))(t), c.SrcQP)
		if c := devices.Next(t, cq); c.QPN != qps[0].QPN() || c.SrcQP != qps[1].QPN() || !c.HasGRH {
			t.Errorf("the answer: %+v", c)
		}
	})
}

// Work requests and peers name the memory of a region by the address that was chosen for it, of an arena and of other memory.
func TestAddressOfRegion(t *testing.T) {
	_, dir := serve(t, device.Config{})
	d := open(t, dir)
	const va = 0x10000
	for name, memory := range map[string][]byte{"other memory": make([]byte, 4096), "arena": testkit.Must1(d.Alloc(4096))(t)} {
		e, peer := newEnd(t, d, 4096, verbs.QPInit{Type: verbs.RC}), newEnd(t, d, 4096, verbs.QPInit{Type: verbs.RC})
		connect(t, e, peer)
		for _, at := range []uint64{va, 0} {
			copy(memory[8:], name)
			clear(e.buf)
			m := testkit.Must1(peer.pd.(*client.PD).RegMRAt(memory, at, allRights))(t)
			if m.VA() != at {
				t.Errorf("%s: the address is %#x, not %#x", name, m.VA(), at)
			}
			read := func(from uint64) verbs.Status {
				testkit.Must(t, e.qp.PostSend(&verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled, SGL: e.sgl(0, 16), RemoteAddr: from, RKey: m.RKey()}))
				return e.wait(t).Status
			}
			if s := read(at + 8); s != verbs.StatusSuccess || string(e.buf[:len(name)]) != name {
				t.Errorf("%s at %#x: %s, %q", name, at, s, e.buf[:16])
			}
			testkit.Must(t, m.Deregister())
		}
		if _, err := peer.pd.(*client.PD).RegMRAt(memory, ^uint64(0)-7, allRights); !errors.Is(err, verbs.ErrRange) {
			t.Errorf("%s beyond the last address: %v", name, err)
		}
		m := testkit.Must1(peer.pd.(*client.PD).RegMRAt(memory, va, allRights))(t)
		testkit.Must(t, e.qp.PostSend(&verbs.SendWR{Op: verbs.OpRead, SGL: e.sgl(0, 16), RemoteAddr: va - 1, RKey: m.RKey()}))
		if c := e.wait(t); c.Status != verbs.StatusRemoteAccess {
			t.Errorf("%s, a byte before the region: %s", name, c.Status)
		}
	}
}
