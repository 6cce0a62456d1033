// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// world has two models joined by a network on virtual time, port 0 to port 0.
type world struct {
	t     testing.TB
	net   *card.Virtual
	side  []*side
	clock func() uint64 // clock of all cards; at first the network's
}

// side is one card with its driver.
type side struct {
	w    *world
	m    *card.Model
	card *hwoffload.Card
	d    *driver.Device
	addr [2]netip.Addr // IPv4, IPv6
	port int           // port of the other side that leads here
	mac  [6]byte
}

const second = qp.Time(1e9)

// Places in card memory. Data of side i crosses a window of the DDR.
const (
	ringBytes = 1 << 22
	dataBase  = 5<<28 - 1<<16
)

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{t: t, net: card.NewVirtual(seed)}
	w.clock = func() uint64 { return uint64(w.net.Now()) }
	w.addSide()
	w.addSide()
	w.net.Connect(w.side[0].m, 0, w.side[1].m, 0)
	return w
}

func (w *world) addSide() *side {
	w.t.Helper()
	i := len(w.side)
	s := &side{w: w, m: card.NewAt(func() uint64 { return w.clock() }), mac: [6]byte{2, 0, 0, 0, 0, byte(i + 1)}}
	s.addr[0] = netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})
	s.addr[1] = netip.MustParseAddr(fmt.Sprintf("fd00::%d", i+1))
	var err error
	if s.card, err = hwoffload.Open(s.m); err != nil {
		w.t.Fatal(err)
	}
	s.d, err = driver.New(s.card, driver.Config{RingBytes: ringBytes, Resolve: w.resolve})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := s.d.SetPort(0, s.mac); err != nil {
		w.t.Fatal(err)
	}
	w.side = append(w.side, s)
	return s
}

func (w *world) resolve(dst netip.Addr) (driver.Hop, error) {
	for _, s := range w.side {
		if s.addr[0] == dst || s.addr[1] == dst {
			return driver.Hop{MAC: s.mac, Port: s.port}, nil
		}
	}
	return driver.Hop{}, fmt.Errorf("nobody has %v", dst)
}

// quiet runs until nothing happens any more.
func (w *world) quiet() {
	w.t.Helper()
	if err := w.net.Run(600*second, card.Quiet); !errors.Is(err, card.ErrQuiet) {
		w.t.Fatal(err)
	}
}

// endpoint is a queue pair with a region.
type endpoint struct {
	*side
	pd   *driver.PD
	cq   *driver.CQ
	qp   *driver.QP
	mr   *driver.MR
	base uint64 // DDR address of the region
	peer *endpoint
}

const (
	regionBytes = 1 << 17
	regionVA    = 0x7f0000001000
	qkey        = 0x1234567
)

const allRights = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic | verbs.AccessBindWindows

func (s *side) endpoint(typ verbs.QPType) *endpoint { return s.endpointIn(s.newPD(), typ) }

func (s *side) newPD() *driver.PD {
	s.w.t.Helper()
	pd, err := s.d.AllocPD()
	if err != nil {
		s.w.t.Fatal(err)
	}
	return pd.(*driver.PD)
}

// newCQ makes a completion queue.
func (s *side) newCQ(depth int) *driver.CQ {
	s.w.t.Helper()
	cq, err := s.d.CreateCQ(depth)
	if err != nil {
		s.w.t.Fatal(err)
	}
	return cq.(*driver.CQ)
}

// newQP makes a queue pair.
func (s *side) newQP(pd *driver.PD, init verbs.QPInit) *driver.QP {
	s.w.t.Helper()
	q, err := pd.CreateQP(init)
	if err != nil {
		s.w.t.Fatal(err)
	}
	return q.(*driver.QP)
}

// endpointIn makes an endpoint of a protection domain.
func (s *side) endpointIn(pd *driver.PD, typ verbs.QPType) *endpoint {
	s.w.t.Helper()
	e := &endpoint{side: s, pd: pd, base: dataBase, cq: s.newCQ(256)}
	e.qp = s.newQP(pd, verbs.QPInit{
		Type: typ, SendCQ: e.cq, RecvCQ: e.cq, MaxSend: 16, MaxRecv: 16, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 100,
	})
	e.mr = e.register(driver.Spec{PD: e.pd.Number(), Access: allRights, Addr: e.base, Len: regionBytes, VA: regionVA})
	return e
}

func (e *endpoint) register(s driver.Spec) *driver.MR {
	e.w.t.Helper()
	m, err := e.d.RegMR(s)
	if err != nil {
		e.w.t.Fatal(err)
	}
	return m
}

// connect makes a pair of endpoints. The PSNs wrap soon. family is 0 for IPv4, 1 for IPv6.
func (w *world) connect(typ verbs.QPType, family int, pmtu rocev2.PMTU) (a, b *endpoint) {
	w.t.Helper()
	a, b = w.side[0].endpoint(typ), w.side[1].endpoint(typ)
	w.join(a, b, family, pmtu)
	return a, b
}

// join connects two endpoints.
func (w *world) join(a, b *endpoint, family int, pmtu rocev2.PMTU) {
	w.t.Helper()
	a.peer, b.peer = b, a
	attr := verbs.DefaultAttr()
	attr.PMTU = pmtu
	local := verbs.Endpoint{Addr: a.addr[family], QPN: a.qp.QPN(), PSN: 0xfffffd, QKey: qkey}
	remote := verbs.Endpoint{Addr: b.addr[family], QPN: b.qp.QPN(), PSN: 77, QKey: qkey}
	if err := errors.Join(verbs.Connect(a.qp, local, remote, attr), verbs.Connect(b.qp, remote, local, attr)); err != nil {
		w.t.Fatal(err)
	}
}

// fill writes random bytes to the region at off and returns them.
func (e *endpoint) fill(off, n int, seed uint64) []byte {
	e.w.t.Helper()
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(seed, uint64(off)))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	if _, err := e.card.DDR().WriteAt(b, int64(e.base)+int64(off)); err != nil {
		e.w.t.Fatal(err)
	}
	return b
}

func (e *endpoint) read(off, n int) []byte {
	e.w.t.Helper()
	b := make([]byte, n)
	if _, err := e.card.DDR().ReadAt(b, int64(e.base)+int64(off)); err != nil {
		e.w.t.Fatal(err)
	}
	return b
}

func (e *endpoint) wants(off int, want []byte, what string) {
	e.w.t.Helper()
	if got := e.read(off, len(want)); !bytes.Equal(got, want) {
		e.w.t.Errorf("%s: %d bytes at %d differ", what, len(want), off)
	}
}

func (e *endpoint) sge(off, n int) verbs.SGE {
	return verbs.SGE{Addr: regionVA + uint64(off), Len: uint32(n), LKey: e.mr.LKey()}
}

func (e *endpoint) post(wr *verbs.SendWR) {
	e.w.t.Helper()
	if err := e.qp.PostSend(wr); err != nil {
		e.w.t.Fatal(err)
	}
}

func (e *endpoint) receive(id uint64, sgl ...verbs.SGE) {
	e.w.t.Helper()
	if err := e.qp.PostRecv(&verbs.RecvWR{ID: id, SGL: sgl}); err != nil {
		e.w.t.Fatal(err)
	}
}

// poll runs the world until n completions are there, and returns them.
func (e *endpoint) poll(n int) []verbs.Completion {
	e.w.t.Helper()
	got := make([]verbs.Completion, n)
	have := 0
	err := e.w.net.Run(600*second, func() bool {
		have += e.cq.Poll(got[have:])
		return have == n
	})
	if err != nil || e.cq.Err() != nil {
		e.w.t.Fatalf("%d of %d completions: %v, %v, %+v", have, n, err, e.cq.Err(), got[:have])
	}
	return got
}

// completes wants exactly this as the next completion.
func (e *endpoint) completes(want verbs.Completion) {
	e.w.t.Helper()
	want.QPN = e.qp.QPN()
	if got := e.poll(1)[0]; got != want {
		e.w.t.Errorf("completion %+v,\nwant %+v", got, want)
	}
}
