// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload/card/wire"
	"github.com/softroce/softroce-xdp/hwoffload/credit"
	"github.com/softroce/softroce-xdp/hwoffload/queue"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Three cards use pre-credit, a distribution group, tasks and plain WRITEs at the same time, while the
// network loses, copies and delays frames and pre-credit is switched. All data is right, and the
// accounts of pre-credit are.
func TestAllTogether(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { allTogether(t, seed) })
	}
}

func allTogether(t *testing.T, seed uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	w := newCreditNodes(t, 3)
	hub := w.side[0]
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range w.side {
		s.enable(creditConfig(creditBudget))
	}
	w.net.Faults = wire.Faults{Loss: 0.03, Duplicate: 0.03, Reorder: 0.03, ReorderBy: creditDelay}

	// The hub distributes to both others. The first of them is the origin.
	pd := hub.d.AllocPD()
	var list []queue.Destination
	var at []*endpoint
	for _, s := range w.side[1:] {
		to, from := hub.endpointIn(pd, verbs.RC), s.endpoint(verbs.RC)
		w.join(to, from, 0, rocev2.PMTU1024)
		at = append(at, from)
		list = append(list, queue.Destination{QP: to.qp, VA: from.mr.VA(), RKey: from.mr.RKey()})
	}
	origin, twin := at[0].side.endpoint(verbs.RC), hub.endpointIn(pd, verbs.RC)
	w.join(origin, twin, 0, rocev2.PMTU1024)
	group, err := hub.d.NewGroup(list...)
	must(err)
	const size = 30000
	region := twin.register(queue.Spec{PD: pd, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite, Addr: distributionAddr,
		Len: size, VA: distributionVA, Group: group})
	const crc = size // where the hub's tasks write
	cores, err := hub.m.StartTasks()
	must(err)
	defer func() { must(cores.Close(context.Background())) }()
	ring, err := hub.d.StartTasks(ctx, pd, 4)
	must(err)

	rng := rand.New(rand.NewPCG(seed, 7))
	for round := range 12 {
		if s := w.side[rng.IntN(3)]; rng.IntN(2) == 0 {
			must(credit.Disable(s.card))
			if rng.IntN(2) == 0 {
				w.after(creditDelay)
			}
			s.enable(creditConfig(creditBudget))
		}
		n := 1 + rng.IntN(size)
		data := origin.fill(sourceOff, n, seed<<8+uint64(round))
		origin.receive(1, origin.sge(reportOff, mr.ReportLen))
		origin.post(&verbs.SendWR{ID: 2, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{origin.sge(sourceOff, n)},
			RemoteAddr: distributionVA, RKey: region.RKey()})
		for _, c := range origin.poll(2) {
			if c.Status != verbs.StatusSuccess {
				t.Fatalf("round %d: %+v", round, c)
			}
		}
		for i, e := range at {
			e.wants(0, data, fmt.Sprintf("round %d: copy %d", round, i))
		}
		_, err := ring.Submit(task.Descriptor{
			Kernel:   task.KernelCRC32C,
			Operands: []task.Operand{{VA: distributionVA, Length: uint32(n), Key: region.LKey(), Type: task.Uint8, Shape: [3]uint32{uint32(n)}}},
			Result:   task.Operand{VA: twin.mr.VA() + crc, Length: 4, Key: twin.mr.LKey(), Type: task.Uint32, Shape: [3]uint32{1}},
		})
		must(err)
		a, err := ring.Wait(ctx)
		must(err)
		if a.Status != task.StatusOK {
			t.Fatalf("round %d: %+v", round, a)
		}
		if got, want := binary.LittleEndian.Uint32(twin.read(crc, 4)), crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)); got != want {
			t.Errorf("round %d: CRC %#x, want %#x", round, got, want)
		}
	}
	w.quiet()
	used := uint64(0)
	for _, s := range w.side {
		s.conserved(creditBudget)
		if l := s.senders(); l.Outstanding != 0 {
			t.Errorf("when all is quiet: %+v", l)
		}
		used += s.credits().Used()
	}
	if g, err := group.Stats(); err != nil || g.Arrived != 12 || g.Refused != 0 || used == 0 {
		t.Errorf("%+v, %v, %d bytes on pre-credit", g, err, used)
	}
	must(ring.Stop(ctx))
}

// A region that is deregistered while a WRITE to it arrives: the peer gets an error, no byte arrives
// after that, and its memory can be used again.
func TestDeregisterDuringWrite(t *testing.T) {
	for at := range 8 {
		w := newWorld(t, uint64(at))
		a, b := w.connect(verbs.RC, 0, rocev2.PMTU1024)
		mr := b.register(queue.Spec{PD: b.pd, Access: allRights, Addr: distributionAddr, Len: regionBytes, VA: distributionVA})
		a.fill(0, regionBytes, 1)
		frames := 0
		w.net.Drop = func([]byte) bool {
			if frames++; frames == 3*at+2 {
				if err := mr.Deregister(); err != nil {
					t.Fatal(err)
				}
				if _, err := b.card.DDR().WriteAt(make([]byte, regionBytes), distributionAddr); err != nil {
					t.Fatal(err)
				}
			}
			return false
		}
		a.post(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, regionBytes)}, RemoteAddr: distributionVA, RKey: mr.RKey()})
		if c := a.poll(1)[0]; c.Status != verbs.StatusRemoteAccess {
			t.Errorf("after frame %d: %+v", 3*at+2, c)
		}
		got := make([]byte, regionBytes)
		if _, err := b.card.DDR().ReadAt(got, distributionAddr); err != nil {
			t.Fatal(err)
		}
		for i, x := range got {
			if x != 0 {
				t.Fatalf("after frame %d: byte %d was written", 3*at+2, i)
			}
		}
		if _, err := b.d.RegMR(queue.Spec{PD: b.pd, Addr: distributionAddr, Len: regionBytes, VA: distributionVA}); err != nil {
			t.Error(err)
		}
	}
}
