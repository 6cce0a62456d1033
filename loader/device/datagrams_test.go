// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"encoding/binary"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	datagramStreams = 1020 // some less than the queue pairs that a process may have
	datagramKey     = 0x11111111
	datagramBytes   = 8
	datagramSlot    = verbs.GRHLen + datagramBytes // of a receive
)

// datagrams are UD queue pairs of one process with one completion queue.
type datagrams struct {
	dev      *client.Device
	cq       verbs.CQ
	mr       verbs.MR
	received []byte // slots of receives
	sent     []byte // content of each send
	qps      []verbs.QP
	ah       verbs.AH
}

// newDatagrams makes queue pairs, with slots/qps receives posted on each.
func newDatagrams(t *testing.T, d *client.Device, qps, slots int) *datagrams {
	t.Helper()
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	x := &datagrams{dev: d}
	if x.cq, err = d.CreateCQ(2 * slots); err != nil {
		t.Fatal(err)
	}
	memory, err := d.Alloc(slots * (datagramSlot + datagramBytes))
	if err != nil {
		t.Fatal(err)
	}
	x.received, x.sent = memory[:slots*datagramSlot], memory[slots*datagramSlot:]
	if x.mr, err = pd.RegMR(memory, allRights); err != nil {
		t.Fatal(err)
	}
	if x.ah, err = pd.CreateAH(verbs.AddressVector{Dst: here}); err != nil {
		t.Fatal(err)
	}
	for i := range qps {
		q, err := pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: x.cq, RecvCQ: x.cq, MaxSend: slots / qps, MaxRecv: slots / qps})
		if err != nil {
			t.Fatal(err)
		}
		e := verbs.Endpoint{Addr: here, QPN: q.QPN(), QKey: datagramKey}
		if err := verbs.Connect(q, e, e, verbs.DefaultAttr()); err != nil {
			t.Fatal(err)
		}
		for k := i; k < slots; k += qps {
			sge := verbs.SGE{Addr: x.mr.VA() + uint64(k*datagramSlot), Len: datagramSlot, LKey: x.mr.LKey()}
			if err := q.PostRecv(&verbs.RecvWR{ID: uint64(k), SGL: []verbs.SGE{sge}}); err != nil {
				t.Fatal(err)
			}
		}
		x.qps = append(x.qps, q)
	}
	return x
}

// send sends a number to a queue pair, from memory that is its own for each number.
func (x *datagrams) send(t *testing.T, from verbs.QP, to uint32, number int) {
	t.Helper()
	at := number * datagramBytes
	binary.BigEndian.PutUint64(x.sent[at:], uint64(number))
	sge := verbs.SGE{Addr: x.mr.VA() + uint64(len(x.received)+at), Len: datagramBytes, LKey: x.mr.LKey()}
	err := from.PostSend(&verbs.SendWR{Op: verbs.OpSend, AH: x.ah, RemoteQPN: to, RemoteQKey: datagramKey, SGL: []verbs.SGE{sge}})
	if err != nil {
		t.Fatal(err)
	}
}

// receive returns n receives that have completed.
func (x *datagrams) receive(t *testing.T, n int) (all []verbs.Completion) {
	t.Helper()
	ctx := testkit.Context(t)
	out := make([]verbs.Completion, 64)
	for len(all) < n {
		if err := x.cq.Wait(ctx, false); err != nil {
			t.Fatalf("after %d of %d receives: %v", len(all), n, err)
		}
		for _, c := range out[:x.cq.Poll(out)] {
			if c.Status != verbs.StatusSuccess || c.Op != verbs.OpRecv || c.Bytes != datagramSlot {
				t.Fatalf("%+v", c)
			}
			all = append(all, c)
		}
	}
	return all
}

// number is what a receive has brought.
func (x *datagrams) number(c verbs.Completion) int {
	return int(binary.BigEndian.Uint64(x.received[int(c.WRID)*datagramSlot+verbs.GRHLen:]))
}

// A process with two UD queue pairs on one completion queue serves as many queue pairs as another process can have:
// each completion names its queue pair and its sender, and each answer arrives where its question came from.
func TestManyDatagramStreams(t *testing.T) {
	_, dir := serve(t, device.Config{})
	server := newDatagrams(t, open(t, dir), 2, datagramStreams)
	clients := newDatagrams(t, open(t, dir), datagramStreams, datagramStreams)
	byQPN := map[uint32]int{}
	for i, q := range clients.qps {
		byQPN[q.QPN()] = i + 1 // 0: none of them
		clients.send(t, q, server.qps[i%2].QPN(), i)
	}
	for _, c := range server.receive(t, datagramStreams) {
		i := server.number(c)
		at := server.qps[i%2]
		if c.QPN != at.QPN() || byQPN[c.SrcQP] != i+1 {
			t.Fatalf("datagram %d: %+v", i, c)
		}
		server.send(t, at, c.SrcQP, i)
	}
	for _, c := range clients.receive(t, datagramStreams) {
		i := clients.number(c)
		if byQPN[c.QPN] != i+1 || c.SrcQP != server.qps[i%2].QPN() {
			t.Fatalf("answer %d: %+v", i, c)
		}
	}
}
