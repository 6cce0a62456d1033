// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/internal/testkit"
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

// together is a hub that distributes to two other cards, the first of which is the origin, and
// executes tasks.
type together struct {
	*world
	hub          *side
	at           []*endpoint // ends of the other hosts
	origin, twin *endpoint   // twin is the hub's
	group        *driver.Group
	region       *driver.MR
	ring         *driver.Tasks
}

const (
	togetherBytes = 30000
	togetherCRC   = togetherBytes // where the hub's tasks write
)

func newTogether(ctx context.Context, t *testing.T) *together {
	t.Helper()
	w := newCreditNodes(t, 3)
	c := &together{world: w, hub: w.side[0]}
	for _, s := range w.side {
		s.enable(creditConfig(creditBudget))
	}
	w.net.Faults = card.Faults{Loss: 0.03, Duplicate: 0.03, Reorder: 0.03, ReorderBy: creditDelay}
	pd := c.hub.newPD()
	var list []driver.Destination
	for _, s := range w.side[1:] {
		to, from := c.hub.endpointIn(pd, verbs.RC), s.endpoint(verbs.RC)
		w.join(to, from, 0, rocev2.PMTU1024)
		c.at = append(c.at, from)
		list = append(list, driver.Destination{QP: to.qp, VA: from.mr.VA(), RKey: from.mr.RKey()})
	}
	c.origin, c.twin = c.at[0].side.endpoint(verbs.RC), c.hub.endpointIn(pd, verbs.RC)
	w.join(c.origin, c.twin, 0, rocev2.PMTU1024)
	var err error
	c.group, err = c.hub.d.NewGroup(list...)
	c.must(err)
	c.region = c.twin.register(driver.Spec{PD: pd.Number(), Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite, Addr: distributionAddr,
		Len: togetherBytes, VA: distributionVA, Group: c.group})
	cores, err := c.hub.m.StartTasks()
	c.must(err)
	t.Cleanup(func() { c.must(cores.Close(context.Background())) })
	c.ring, err = c.hub.d.StartTasks(ctx, pd.Number(), 4)
	c.must(err)
	return c
}

func (c *together) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// distribute writes n bytes to the group, and returns them.
func (c *together) distribute(n int, seed uint64) []byte {
	c.t.Helper()
	data := c.origin.fill(sourceOff, n, seed)
	c.origin.receive(1, c.origin.sge(reportOff, mr.ReportLen))
	c.origin.post(&verbs.SendWR{ID: 2, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{c.origin.sge(sourceOff, n)},
		RemoteAddr: distributionVA, RKey: c.region.RKey()})
	for _, done := range c.origin.poll(2) {
		if done.Status != verbs.StatusSuccess {
			c.t.Fatalf("%+v", done)
		}
	}
	for i, e := range c.at {
		e.wants(0, data, fmt.Sprintf("copy %d", i))
	}
	return data
}

// sum has a task compute the CRC of the first bytes of the distribution region.
func (c *together) sum(ctx context.Context, n int) uint32 {
	c.t.Helper()
	_, err := c.ring.Submit(task.Descriptor{
		Kernel:   task.KernelCRC32C,
		Operands: []task.Operand{{VA: distributionVA, Length: uint32(n), Key: c.region.LKey(), Type: task.Uint8, Shape: [3]uint32{uint32(n)}}},
		Result:   task.Operand{VA: c.twin.mr.VA() + togetherCRC, Length: 4, Key: c.twin.mr.LKey(), Type: task.Uint32, Shape: [3]uint32{1}},
	})
	c.must(err)
	a, err := c.ring.Wait(ctx)
	c.must(err)
	if a.Status != task.StatusOK {
		c.t.Fatalf("%+v", a)
	}
	return binary.LittleEndian.Uint32(c.twin.read(togetherCRC, 4))
}

func allTogether(t *testing.T, seed uint64) {
	ctx := testkit.Context(t)
	c := newTogether(ctx, t)
	rng := rand.New(rand.NewPCG(seed, 7))
	const rounds = 12
	for round := range rounds {
		if s := c.side[rng.IntN(3)]; rng.IntN(2) == 0 {
			c.must(driver.DisablePreCredit(s.card))
			if rng.IntN(2) == 0 {
				c.after(creditDelay)
			}
			s.enable(creditConfig(creditBudget))
		}
		n := 1 + rng.IntN(togetherBytes)
		data := c.distribute(n, seed<<8+uint64(round))
		if got, want := c.sum(ctx, n), crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)); got != want {
			t.Errorf("round %d: CRC %#x, want %#x", round, got, want)
		}
	}
	c.quiet()
	used := uint64(0)
	for _, s := range c.side {
		s.conserved(creditBudget)
		if l := s.senders(); l.Outstanding != 0 {
			t.Errorf("when all is quiet: %+v", l)
		}
		used += s.credits().Used()
	}
	if g, err := c.group.Stats(); err != nil || g.Arrived != rounds || g.Refused != 0 || used == 0 {
		t.Errorf("%+v, %v, %d bytes on pre-credit", g, err, used)
	}
	c.must(c.ring.Stop(ctx))
}

// A region that is deregistered while a WRITE to it arrives: the peer gets an error, no byte arrives
// after that, and its memory can be used again.
func TestDeregisterDuringWrite(t *testing.T) {
	for at := range 8 {
		w := newWorld(t, uint64(at))
		a, b := w.connect(verbs.RC, 0, rocev2.PMTU1024)
		mr := b.register(driver.Spec{PD: b.pd.Number(), Access: allRights, Addr: distributionAddr, Len: regionBytes, VA: distributionVA})
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
		if _, err := b.d.RegMR(driver.Spec{PD: b.pd.Number(), Addr: distributionAddr, Len: regionBytes, VA: distributionVA}); err != nil {
			t.Error(err)
		}
	}
}
