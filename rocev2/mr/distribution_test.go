// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The end of a WRITE reaches the region, with the offset in it, also through a window, and
// not after deregistration.
func TestArrived(t *testing.T) {
	const va = 0x10000
	type call struct {
		a      mem.Arrival
		offset uint64
	}
	var calls []call
	table := newTable(t)
	pd := table.AllocPD()
	r := register(t, table, Spec{PD: pd, Host: make([]byte, 256), VA: va, Access: everything,
		Arrived: func(a mem.Arrival, offset uint64) { calls = append(calls, call{a, offset}) }})
	plain := register(t, table, Spec{PD: pd, Host: make([]byte, 256), VA: va, Access: everything})
	w := newWindow(t, table, pd)
	wantFault(t, "bind", table.BindWindow(pd, 7, verbs.Bind{Window: w.RKey(), Region: r.LKey(), Addr: va + 64, Length: 64,
		Access: verbs.AccessRemoteWrite | verbs.AccessZeroBased, NewKey: 1}), mem.FaultNone)

	direct := mem.Arrival{QPN: 7, RKey: r.RKey(), Addr: va + 8, Len: 16, Imm: 5, HasImm: true}
	window := mem.Arrival{QPN: 7, RKey: w.RKey(), Addr: 4, Len: 16}
	table.EndWrite(pd, direct)
	table.EndWrite(pd, window)
	table.EndWrite(pd, mem.Arrival{QPN: 7, RKey: plain.RKey(), Addr: va, Len: 16})
	table.EndWrite(pd, mem.Arrival{QPN: 7, RKey: r.RKey() ^ 1, Addr: va, Len: 16})
	if want := []call{{direct, 8}, {window, 68}}; !slices.Equal(calls, want) {
		t.Errorf("calls %+v, want %+v", calls, want)
	}
	if err := w.Free(); err != nil {
		t.Fatal(err)
	}
	if err := r.Deregister(); err != nil {
		t.Fatal(err)
	}
	table.EndWrite(pd, direct)
	if len(calls) != 2 {
		t.Errorf("%d calls after deregistration, want 2", len(calls))
	}
}

var four = Group{{QPN: 11, VA: 0x1000, RKey: 1}, {QPN: 12, VA: 0x2000, RKey: 2}, {QPN: 13, VA: 0x3000, RKey: 3}, {QPN: 14, VA: 0x4000, RKey: 4}}

func newDistribution(t testing.TB, g Group) *Distribution {
	t.Helper()
	d, err := NewDistribution(g, 0x9000, 4096, 99)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestGroupCheck(t *testing.T) {
	same := slices.Clone(four)
	same[3].QPN = 11
	high := slices.Clone(four)
	high[2].VA = ^uint64(0) - 4094
	for want, g := range map[string]Group{
		"a distribution group of 0 destinations: give 1 to 4":                                             nil,
		"group of 5 destinations":                                                                         append(slices.Clone(four), Destination{QPN: 15}),
		"queue pair 11 has another destination already":                                                   same,
		"destination 2 of the group: impossible memory range: 4096 bytes at 0xfffffffffffff001 go beyond": high,
	} {
		if _, err := NewDistribution(g, 0, 4096, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// A message leaves to four destinations, and its report has the status of each.
func TestDistribution(t *testing.T) {
	d := newDistribution(t, four)
	a := mem.Arrival{QPN: 5, RKey: 77, Addr: 0x9100, Len: 300, Imm: 6, HasImm: true}
	if !d.Arrived(a, 0x100) {
		t.Fatal("refused")
	}
	var ids []uint64
	d.Post(func(to Destination, wr *verbs.SendWR) error {
		i := len(ids)
		ids = append(ids, wr.ID)
		if to != four[i] || wr.Op != verbs.OpWriteImm || wr.Imm != 6 || wr.RemoteAddr != four[i].VA+0x100 || wr.RKey != four[i].RKey ||
			wr.Flags != verbs.Signaled || wr.SGL[0] != (verbs.SGE{Addr: 0x9100, Len: 300, LKey: 99}) || wr.ID&^WRIDMask != 0 {
			t.Errorf("to %+v: %+v", to, wr)
		}
		return nil
	})
	for i, s := range []verbs.Status{verbs.StatusSuccess, verbs.StatusRetryExceeded, verbs.StatusSuccess, verbs.StatusRemoteAccess} {
		if _, ok := d.NextReport(); ok {
			t.Fatalf("a report after %d of 4 statuses", i)
		}
		d.Complete(ids[i], s)
		d.Complete(ids[i], verbs.StatusFatal) // a second one counts for nothing
	}
	r, ok := d.NextReport()
	want := Report{QPN: 5, VA: 0x9100, Length: 300, Destinations: 4, Status: [4]verbs.Status{1: verbs.StatusRetryExceeded, 3: verbs.StatusRemoteAccess}}
	if !ok || r != want || r.Delivered() {
		t.Errorf("report %+v, want %+v", r, want)
	}
	if _, ok := d.NextReport(); ok || !d.Idle() {
		t.Error("a second report")
	}
}

// A destination that takes nothing delays no other one, and an origin with too many messages
// outstanding loses those beyond the limit only.
func TestDistributionBlocked(t *testing.T) {
	d := newDistribution(t, four)
	for i := range DistributionDepth + 3 {
		if got, want := d.Arrived(mem.Arrival{Addr: uint64(i), Len: 1}, uint64(i)), i < DistributionDepth; got != want {
			t.Fatalf("message %d: taken %v", i, got)
		}
	}
	posted := map[uint32]int{}
	for range 10 {
		taken := map[uint32]int{}
		var ids []uint64
		d.Post(func(to Destination, wr *verbs.SendWR) error {
			if taken[to.QPN]++; taken[to.QPN] > 40 || to.QPN == 12 && posted[12] == 8 {
				return verbs.ErrQueueFull
			}
			posted[to.QPN]++
			if to.QPN != 12 {
				ids = append(ids, wr.ID)
			}
			return nil
		})
		for _, id := range ids {
			d.Complete(id, verbs.StatusSuccess)
		}
	}
	if _, ok := d.NextReport(); ok {
		t.Error("a report of a message without the status of destination 1")
	}
	if posted[11] != DistributionDepth || posted[13] != DistributionDepth || posted[14] != DistributionDepth || posted[12] != 8 || d.Refused() != 3 {
		t.Errorf("posted %v, refused %d", posted, d.Refused())
	}
}

// wireModel is what a random test knows of one destination.
type wireModel struct {
	outstanding []uint64 // work requests without a completion
	got         []uint64 // addresses in order
	room        int
	dead        bool
}

// Whatever the order of completions: each destination gets each message once and in order,
// and each message has one report, in order, with the statuses that its work requests had.
func TestDistributionProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := four[:rapid.IntRange(1, 4).Draw(t, "destinations")]
		d, err := NewDistribution(g, 0, 1<<20, 1)
		if err != nil {
			t.Fatal(err)
		}
		start := rapid.SampledFrom([]uint32{0, ^uint32(0) - 3}).Draw(t, "first number")
		d.oldest, d.end = start, start
		for i := range d.next {
			d.next[i] = start
		}
		wires := make([]wireModel, len(g))
		status := map[uint64]verbs.Status{}
		arrived, reported := uint64(0), uint64(0)
		steps := rapid.IntRange(1, 200).Draw(t, "steps")
		for range steps {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				if d.Arrived(mem.Arrival{Addr: arrived, Len: 1}, arrived) {
					arrived++
				}
			case 1:
				for i := range wires {
					wires[i].room = rapid.IntRange(0, 3).Draw(t, "room")
				}
				d.Post(func(to Destination, wr *verbs.SendWR) error {
					w := &wires[slices.Index(g, to)]
					if w.dead {
						status[wr.ID] = verbs.StatusLocalQPOperation
						w.got = append(w.got, wr.RemoteAddr-to.VA)
						return errors.New("destroyed")
					}
					if w.room == 0 {
						return verbs.ErrQueueFull
					}
					w.room--
					w.outstanding, w.got = append(w.outstanding, wr.ID), append(w.got, wr.RemoteAddr-to.VA)
					return nil
				})
			case 2:
				w := &wires[rapid.IntRange(0, len(g)-1).Draw(t, "destination")]
				if len(w.outstanding) > 0 {
					s := verbs.Status(rapid.IntRange(0, 3).Draw(t, "status"))
					status[w.outstanding[0]] = s
					d.Complete(w.outstanding[0], s)
					w.outstanding = w.outstanding[1:]
				}
			case 3:
				wires[rapid.IntRange(0, len(g)-1).Draw(t, "dies")].dead = rapid.IntRange(0, 9).Draw(t, "dead") == 0
			}
			for {
				r, ok := d.NextReport()
				if !ok {
					break
				}
				if r.VA != reported {
					t.Fatalf("report of message %d, want %d", r.VA, reported)
				}
				for i := range g {
					want, ended := status[uint64(r.Message)<<destBits|uint64(i)]
					if !ended || r.Status[i] != want {
						t.Fatalf("message %d, destination %d: status %v, want %v (ended %v)", r.VA, i, r.Status[i], want, ended)
					}
				}
				reported++
			}
		}
		for i, w := range wires {
			for n, at := range w.got {
				if at != uint64(n) {
					t.Fatalf("destination %d: work request %d is message %d", i, n, at)
				}
			}
			if done := uint64(len(w.got) - len(w.outstanding)); reported > done {
				t.Fatalf("%d reports, destination %d ended %d", reported, i, done)
			}
		}
	})
}

func TestReport(t *testing.T) {
	r := Report{Message: 0x01020304, VA: 0x1112131415161718, Length: 0x21222324, Destinations: 3,
		Status: [4]verbs.Status{0, verbs.StatusRetryExceeded, verbs.StatusRemoteAccess}}
	b := r.AppendTo(nil)
	want := []byte{1, 3, 0, 0, 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0, 11, 9, 0}
	if !bytes.Equal(b, want) {
		t.Errorf("% x, want % x", b, want)
	}
	if got, err := ParseReport(b); err != nil || got != r {
		t.Errorf("%+v, error %v", got, err)
	}
	for n := range b {
		if _, err := ParseReport(b[:n]); err == nil {
			t.Errorf("%d bytes were parsed", n)
		}
	}
	for at, v := range map[int]byte{0: 2, 1: 5} {
		bad := slices.Clone(b)
		bad[at] = v
		if _, err := ParseReport(bad); err == nil {
			t.Errorf("byte %d = %d was parsed", at, v)
		}
	}
}
