// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/faults"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// disorderedHosts are two hosts with a middle box between them, and their engines.
func disorderedHosts(t *testing.T) ([]*engines.Host, *faults.Box) {
	t.Helper()
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	box, err := faults.NewDisorder(top, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	hosts := engines.On(t, top, "--policy", "mode=fixed")
	for _, h := range hosts {
		h.MustOpen(t, nic.Options{})
	}
	return hosts, box
}

// newOOOSide makes a side whose queue pair is in out-of-order mode.
func newOOOSide(t *testing.T, h *engines.Host, size int) *side {
	t.Helper()
	s := newSide(t, h, verbs.RC, size)
	if err := s.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.qp, err = s.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq, OutOfOrder: true}); err != nil {
		t.Fatal(err)
	}
	return s
}

// oooSides are two connected queue pairs in out-of-order mode.
func oooSides(t *testing.T, hosts []*engines.Host, size int, v6 bool) (a, b *side) {
	t.Helper()
	a, b = newOOOSide(t, hosts[0], size), newOOOSide(t, hosts[1], size)
	if err := connectPair(a.qp, b.qp, hosts[0].Addr(v6), hosts[1].Addr(v6), rocev2.PMTU1024); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// Out-of-order mode through attached XDP, over a box that loses, duplicates and reorders packets: WRITE, WRITE
// with notification and READ. A queue pair of RC works next to it.
func TestOutOfOrderNetwork(t *testing.T) {
	t.Run("IPv4", func(t *testing.T) { testOrderNetwork(t, false) })
	t.Run("IPv6", func(t *testing.T) { testOrderNetwork(t, true) })
}

func testOrderNetwork(t *testing.T, v6 bool) {
	const size, rounds = 200_000, 6
	hosts, box := disorderedHosts(t)
	a, b := oooSides(t, hosts, size, v6)
	rc, rcPeer := connected(t, hosts, patient)
	startTraffic(rc, rcPeer, 2000).flows(t)

	box.Set(faults.Spec{Loss: .01, Duplicates: .05, Delayed: .3, Delay: 2 * time.Millisecond})
	random := rand.New(rand.NewPCG(1, 2))
	// Few packets are lost: a run that has lost none of this queue pair goes on.
	for i := uint64(0); i < rounds || counter(a.dev, "ooo_resent") == 0 && i < 10*rounds; i++ {
		op := []verbs.Op{verbs.OpWrite, verbs.OpWriteNotify, verbs.OpRead}[i%3]
		for k := range a.buf {
			a.buf[k], b.buf[k] = byte(random.Uint32()), byte(random.Uint32())
		}
		want := a.buf
		if op == verbs.OpRead {
			want = b.buf
		}
		want = bytes.Clone(want)
		if op == verbs.OpWriteNotify {
			if err := b.qp.PostRecv(&verbs.RecvWR{ID: i}); err != nil {
				t.Fatal(err)
			}
		}
		a.post(t, &verbs.SendWR{ID: i, Op: op, Flags: verbs.Signaled, SGL: a.sge(0, size), RemoteAddr: b.va, RKey: b.key, Imm: uint32(i)})
		if op == verbs.OpWriteNotify {
			if c := b.poll(t); c.Status != verbs.StatusSuccess || c.Op != verbs.OpRecvNotify || c.WRID != i || c.Imm != uint32(i) || c.Bytes != size {
				t.Errorf("notification %+v", c)
			}
			if !bytes.Equal(b.buf, want) {
				t.Errorf("message %d was notified before its data was there", i)
			}
		}
		if c := a.poll(t); c.Status != verbs.StatusSuccess || c.WRID != i || c.Op != op {
			t.Fatalf("%+v", c)
		}
		if !bytes.Equal(a.buf, want) || !bytes.Equal(b.buf, want) {
			t.Fatalf("message %d: memory differs", i)
		}
	}
	if n := b.cq.Poll(make([]verbs.Completion, 1)); n != 0 {
		t.Error("a message was notified twice")
	}
	startTraffic(rc, rcPeer, 2000).flows(t)
	c := box.Counts()
	if c.Lost == 0 || c.Duplicated == 0 || c.Delayed == 0 || counter(a.dev, "ooo_resent") == 0 || counter(b.dev, "ooo_duplicates") == 0 {
		t.Errorf("no faults: %+v\n%s%s", c, dump(a.dev), dump(b.dev))
	}
	t.Logf("%d packets, %d lost, %d duplicated, %d delayed; %d sent, %d of them again, %d without need", c.Packets, c.Lost, c.Duplicated, c.Delayed,
		counter(a.dev, "ooo_sent_pkts"), counter(a.dev, "ooo_resent"), counter(a.dev, "ooo_spurious"))
}

// A host that does not announce the mode, as one of an earlier version, is never sent its packets. The queue
// pair ends with an event that says why, and one of RC works.
func TestOutOfOrderOldPeer(t *testing.T) {
	hosts, box := disorderedHosts(t)
	cfg, err := hosts[1].Attachment(t).LiveConfig()
	if err != nil {
		t.Fatal(err)
	}
	defer cfg.Close()
	atomic.AndUint32(&cfg.Caps, ^uint32(bpf.CapOOO))
	rc, rcPeer := connected(t, hosts, patient)
	startTraffic(rc, rcPeer, 2000).flows(t) // which has HELLO sent
	table := hosts[0].Attachment(t)
	// Until HELLO has told. One that was sent before the change may arrive late.
	for end, told := time.Now().Add(testkit.Patience), 0; told < 20; time.Sleep(10 * time.Millisecond) {
		row, found, err := table.Lookup(hosts[1].IPv4())
		if err != nil {
			t.Fatal(err)
		}
		if told++; !found || row.Regs.Caps&bpf.CapOOO != 0 {
			told = 0
		}
		if time.Now().After(end) {
			t.Fatal("the change is not announced")
		}
	}
	a, b := oooSides(t, hosts, 4096, false)
	a.post(t, &verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: a.sge(0, 4096), RemoteAddr: b.va, RKey: b.key})
	if c := a.poll(t); c.Status != verbs.StatusRemoteInvalidRequest {
		t.Errorf("%+v", c)
	}
	for fatal, late := false, time.After(testkit.Patience); !fatal; {
		select {
		case ev := <-a.dev.Events():
			if fatal = ev.Type == verbs.EventQPFatal; fatal && (!errors.Is(ev.Err, nic.ErrNotOutOfOrder) || a.qp.State() != verbs.StateErr) {
				t.Errorf("%v, %s", ev.Err, a.qp.State())
			}
		case <-late:
			t.Fatal("no event")
		}
	}
	for op := rocev2.OpOWrite; op <= rocev2.OpONak; op++ {
		if n := box.Counts().Opcodes[op]; n != 0 {
			t.Errorf("%d packets with %s were sent", n, op)
		}
	}
	startTraffic(rc, rcPeer, 2000).flows(t)
}
