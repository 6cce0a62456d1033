// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
)

var (
	_ driver.AgentTable = (*driver.Table)(nil)
	_ driver.AgentPort  = (*driver.TablePort)(nil)
)

const token = 41

func addr(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

func key(n byte) bpf.DestKey { return bpf.KeyOf(addr(n)) }

// openTable opens the table of a model.
func openTable(t testing.TB, m hwoffload.Device) *driver.Table {
	t.Helper()
	c, err := hwoffload.Open(m)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := driver.NewTable(c)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// feedback is an acknowledgement that arrives tx+rx after data that left at t1.
func feedback(t1, tx, rx uint64) (*card.Packet, uint64) {
	return &card.Packet{Bytes: 48, Feedback: true, Stamp: rocev2.Stamp{
		Flags: rocev2.StampT1 | rocev2.StampEcho, Token: token, T1: t1 + tx, EchoT1: t1, EchoT2: t1 + tx}}, t1 + tx + rx
}

// Nodes are written and read back, with IPv4 and IPv6, and are removed.
func TestNodes(t *testing.T) {
	m := card.New()
	tab := openTable(t, m)
	if len(tab.Nodes()) != 0 || tab.Self() != 0 {
		t.Fatalf("a card after reset has nodes %v", tab.Nodes())
	}
	v6 := netip.MustParseAddr("fd00::9")
	list := []driver.Node{{1, addr(1), 0}, {4, addr(4), 0}, {driver.MaxNode, v6, 3}}
	if err := tab.SetNodes(1, list); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*driver.Table{tab, openTable(t, m)} {
		if diff := cmp.Diff(list[1:], x.Nodes(), cmpopts.EquateComparable(netip.Addr{})); diff != "" || x.Self() != 1 {
			t.Errorf("self %d (-want +got):\n%s", x.Self(), diff)
		}
	}
	if err := tab.SetNodes(0, list[2:]); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list[2:], tab.Nodes(), cmpopts.EquateComparable(netip.Addr{})); diff != "" || tab.Self() != 0 {
		t.Errorf("self %d (-want +got):\n%s", tab.Self(), diff)
	}
}

func TestBadNodes(t *testing.T) {
	for want, c := range map[string]struct {
		self uint32
		list []driver.Node
	}{
		"node number 1025 of this node":     {1025, nil},
		"numbers from 1 to 1024":            {1, []driver.Node{{0, addr(1), 0}}},
		"node number 1025: a card":          {1, []driver.Node{{1025, addr(1), 0}}},
		"a card has ports 0 to 3":           {1, []driver.Node{{2, addr(1), 4}}},
		"node 2 has no address":             {1, []driver.Node{{Number: 2}}},
		"node number 2 is there twice":      {1, []driver.Node{{2, addr(1), 0}, {2, addr(2), 0}}},
		"nodes 2 and 3 have the same addre": {1, []driver.Node{{2, addr(1), 0}, {3, addr(1), 0}}},
	} {
		m := card.New()
		if err := openTable(t, m).SetNodes(c.self, c.list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if regs.NodesOf(m).Self() != 0 || regs.NodesOf(m).Node(1) != 0 {
			t.Errorf("%q: something was written", want)
		}
	}
}

func TestParams(t *testing.T) {
	tab := openTable(t, card.New())
	p, err := tab.Params()
	if err != nil || *bpf.ParamsAs[fourcase.Params](&p) != fourcase.DefaultParams(100e9) {
		t.Fatalf("%+v, %v", p, err)
	}
	want := fourcase.ParamsFor(25e9, 3000, false)
	want.Mode = fourcase.ModeLiteral
	if err := tab.SetParams(*bpf.ParamsFrom(&want)); err != nil {
		t.Fatal(err)
	}
	if p, err = tab.Params(); err != nil || *bpf.ParamsAs[fourcase.Params](&p) != want {
		t.Errorf("%+v, %v", p, err)
	}
}

// A port collects its own active entries, each once, also where there are more than slots.
func TestCollect(t *testing.T) {
	m := card.New()
	tab := openTable(t, m)
	var list []driver.Node
	const nodes = 300
	for i := range nodes {
		list = append(list, driver.Node{Number: uint32(i + 1), Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), Port: uint32(i % 2)})
	}
	if err := tab.SetNodes(0, list); err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		regs.DestOf(m, i).SetRxToken(token)
	}
	m.Receive(nodes+1, &card.Packet{}, 1) // no node
	for number := range uint32(2) {
		p := tab.Port(number)
		for range 2 { // what Collect keeps of one round does not harm the next
			for i := range nodes {
				packet, at := feedback(uint64(1000+i), 5, 3)
				packet.Stamp.EchoT1 += 1000 * uint64(regs.DestOf(m, i).RxPackets())
				m.Receive(i+1, packet, at+1000)
			}
			var got []uint32
			for {
				n, err := p.Collect()
				if err != nil {
					t.Fatal(err)
				}
				for _, slot := range p.Slots()[:n] {
					i := slices.IndexFunc(list, func(x driver.Node) bool { return bpf.KeyOf(x.Addr) == slot.Key })
					if slot.Found != 1 || i < 0 || slot.Regs.RxPackets == 0 || slot.Regs.RxPackets != regs.DestOf(m, i).RxPackets() {
						t.Fatalf("slot %v: element %d, %d packets", slot.Key, i, slot.Regs.RxPackets)
					}
					got = append(got, list[i].Number)
				}
				if n < len(p.Slots()) {
					break
				}
			}
			if len(got) != nodes/2 || !slices.IsSorted(got) || len(slices.Compact(got)) != nodes/2 {
				t.Errorf("port %d: collected %v", number, got)
			}
		}
	}
}

// Apply writes what each slot names, by the key of the slot.
func TestApply(t *testing.T) {
	m := card.NewAt(func() uint64 { return 77 })
	tab := openTable(t, m)
	if err := tab.SetNodes(0, []driver.Node{{3, addr(3), 0}, {9, addr(9), 0}}); err != nil {
		t.Fatal(err)
	}
	p := tab.Port(0)
	s := p.Slots()
	for i, k := range []bpf.DestKey{key(3), key(9), key(5)} {
		s[i] = bpf.AgentSlot{Key: k, Regs: bpf.DestRegs{RateBps: 1, EngineRateBps: 2, StackRateBps: 3, Bound: 12, EngineLimit: 13, ClassId: 4, Node: 5, Caps: 6, NextTxNs: 7, TxPackets: 8}}
		s[i].Regs.Policy.RateBps, s[i].Regs.Policy.State = 9, 10
	}
	s[0].Op, s[1].Op, s[2].Op = bpf.SetPolicy|bpf.SetNode|bpf.SetClass, bpf.SetCaps|bpf.ShiftNextTx, bpf.SetPolicy
	s[1].ShiftNs, s[1].Regs.Caps = -1, 11
	if err := p.Apply(3); err != nil {
		t.Fatal(err)
	}
	if s[0].Found != 1 || s[1].Found != 1 || s[2].Found != 0 {
		t.Errorf("found %d %d %d", s[0].Found, s[1].Found, s[2].Found)
	}
	a := bpf.DestRegs{RateBps: 1, EngineRateBps: 2, StackRateBps: 3, Bound: 12, ClassId: 4, Node: 5, ValidAfterNs: 77}
	a.Policy.RateBps, a.Policy.State = 9, 10
	b := bpf.DestRegs{Caps: 11, NextTxNs: ^uint64(0), ValidAfterNs: 77}
	rows, err := tab.Rows()
	if diff := cmp.Diff([]bpf.Row{{Addr: addr(3), Regs: a}, {Addr: addr(9), Regs: b}}, rows, cmpopts.EquateComparable(netip.Addr{})); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	s[0].Key, s[1].Key = key(9), key(5)
	if err := p.Read(2); err != nil || s[0].Found != 1 || s[0].Regs != b || s[1].Found != 0 {
		t.Errorf("read %+v, %d, %v", s[0], s[1].Found, err)
	}
}

// gone reads all ones, as a PCI card does that was removed.
type gone struct{ hwoffload.Device }

func (gone) R32(uint64) uint32 { return ^uint32(0) }
func (gone) R64(uint64) uint64 { return ^uint64(0) }

// A card that fails, or that reads all ones, gives errors.
func TestFailure(t *testing.T) {
	for name, fail := range map[string]func(m *card.Model, d *hwoffload.Device){
		"fails":   func(m *card.Model, _ *hwoffload.Device) { m.Set(errors.New("the simulator has ended")) },
		"removed": func(m *card.Model, d *hwoffload.Device) { *d = gone{m} },
	} {
		m := card.New()
		c, err := hwoffload.Open(m)
		if err != nil {
			t.Fatal(err)
		}
		tab, err := driver.NewTable(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := tab.SetNodes(0, []driver.Node{{3, addr(3), 0}}); err != nil {
			t.Fatal(err)
		}
		fail(m, &c.Device)
		p := tab.Port(0)
		_, err1 := p.Collect()
		_, err2 := tab.Params()
		_, err3 := tab.Rows()
		for i, err := range []error{err1, err2, err3, tab.Refresh(), p.Apply(1), p.Read(1)} {
			if err == nil || !strings.Contains(err.Error(), "the card does not answer") && !strings.Contains(err.Error(), "the simulator has ended") {
				t.Errorf("%s: call %d: %v", name, i, err)
			}
		}
	}
}

func paramsFrom(p fourcase.Params) *bpf.PolicyParams { return bpf.ParamsFrom(&p) }
