// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A loopback device carries messages of several packets at both of its addresses, and knows no
// other.
func TestLoopbackDevice(t *testing.T) {
	d, err := OpenLoopback(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	port, err := d.Port()
	if err != nil || !port.Active || len(port.GIDs) != 2 {
		t.Fatalf("%+v, %v", port, err)
	}
	pd, _ := d.AllocPD()
	cq, _ := d.CreateCQ(16)
	src, dst := make([]byte, 100000), make([]byte, 100000)
	for i := range src {
		src[i] = byte(i * 7)
	}
	from, _ := pd.RegMR(src, 0)
	to, err := pd.RegMR(dst, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range port.GIDs {
		clear(dst)
		x, y := loopbackPair(t, pd, cq, addr)
		err := x.PostSend(&verbs.SendWR{
			Op: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: to.VA(), RKey: to.RKey(),
			SGL: []verbs.SGE{{Addr: from.VA(), Len: uint32(len(src)), LKey: from.LKey()}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := cq.Wait(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		var c [1]verbs.Completion
		if cq.Poll(c[:]) != 1 || c[0].Status != verbs.StatusSuccess || string(src) != string(dst) {
			t.Errorf("%s: %+v", addr, c[0])
		}
		if a, err := x.Query(); err != nil || a.AV.Dst != addr || a.DestQPN != y.QPN() {
			t.Errorf("%s: %+v, %v", addr, a, err)
		}
		if err := errors.Join(x.Destroy(), y.Destroy()); err != nil {
			t.Error(err)
		}
	}
	if _, err := pd.CreateAH(verbs.AddressVector{Dst: netip.MustParseAddr("10.0.0.1")}); !errors.Is(err, route.ErrNoRoute) {
		t.Errorf("an address elsewhere: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := cq.Wait(context.Background(), false); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func loopbackPair(t *testing.T, pd verbs.PD, cq verbs.CQ, addr netip.Addr) (x, y verbs.QP) {
	t.Helper()
	x, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	if y, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}); err != nil {
		t.Fatal(err)
	}
	a, b := verbs.Endpoint{Addr: addr, QPN: x.QPN(), PSN: rocev2.PSNMask}, verbs.Endpoint{Addr: addr, QPN: y.QPN(), PSN: 7}
	if err := errors.Join(verbs.Connect(x, a, b, verbs.DefaultAttr()), verbs.Connect(y, b, a, verbs.DefaultAttr())); err != nil {
		t.Fatal(err)
	}
	return x, y
}

// A queue of something else than this device is refused.
func TestForeignQueue(t *testing.T) {
	d, err := OpenLoopback(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	pd, _ := d.AllocPD()
	cq, _ := d.CreateCQ(1)
	for _, foreign := range []verbs.CQ{(*CQ)(nil), struct{ verbs.CQ }{cq}} {
		if x, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: foreign}); err == nil || x != nil {
			t.Errorf("%T: %v, %v", foreign, x, err)
		}
	}
	if _, err := OpenLoopback(Options{PreCredit: true}); err == nil {
		t.Error("pre-credit without an interface")
	}
}

// What a queue pair of a closed device used can be destroyed after the queue pair. The same
// holds for a device whose interface is gone.
func TestDestroyAfterClose(t *testing.T) {
	d, err := OpenLoopback(Options{})
	if err != nil {
		t.Fatal(err)
	}
	pd, _ := d.AllocPD()
	cq, _ := d.CreateCQ(16)
	srq, _ := pd.CreateSRQ(4, 1)
	q, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cq.Destroy(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("with a queue pair: %v", err)
	}
	if err := q.Destroy(); err != nil {
		t.Error(err)
	}
	for _, o := range []struct {
		name    string
		destroy func() error
	}{{"completion queue", cq.Destroy}, {"shared receive queue", srq.Destroy}, {"protection domain", pd.Free}} {
		if err := o.destroy(); err != nil {
			t.Errorf("%s: %v", o.name, err)
		}
	}
}
