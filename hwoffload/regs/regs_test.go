// SPDX-License-Identifier: Apache-2.0

package regs_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
)

// recorder is a bus that notes its last access. Reads return a value with the top bit set.
type recorder struct {
	last  string
	value uint64 // written
}

func (b *recorder) R32(a uint64) uint32 {
	b.last = fmt.Sprintf("R32 %#x", a)
	return 0x80000001
}

func (b *recorder) R64(a uint64) uint64 {
	b.last = fmt.Sprintf("R64 %#x", a)
	return 0x8000000000000001
}
func (b *recorder) W32(a uint64, v uint32) { b.last, b.value = fmt.Sprintf("W32 %#x", a), uint64(v) }
func (b *recorder) W64(a uint64, v uint64) { b.last, b.value = fmt.Sprintf("W64 %#x", a), v }

func camel(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// last are the accessors of the last element of each block.
func last(b regs.Bus) map[string]any {
	return map[string]any{
		"ident": regs.IdentOf(b), "ports": regs.PortsOf(b, regs.PortsCount-1), "fourcase": regs.FourcaseOf(b),
		"ddr": regs.DdrOf(b), "nodes": regs.NodesOf(b), "dest": regs.DestOf(b, regs.DestCount-1),
		"calls": regs.CallsOf(b), "mr": regs.MrOf(b, regs.MrCount-1), "mtt": regs.MttOf(b, regs.MttCount-1),
		"qp": regs.QpOf(b, regs.QpCount-1), "cq": regs.CqOf(b, regs.CqCount-1), "doorbells": regs.DoorbellsOf(b, regs.DoorbellsCount-1), "interrupts": regs.InterruptsOf(b),
		"distribution": regs.DistributionOf(b, regs.DistributionCount-1), "task": regs.TaskOf(b), "precredit": regs.PrecreditOf(b),
	}
}

// Each accessor uses the address and the width of its register, in the last elements, and
// there is one for each access that the definition allows.
func TestAccessors(t *testing.T) {
	bus := &recorder{}
	all := last(bus)
	if len(all) != len(regs.Blocks) {
		t.Fatalf("the test knows %d blocks, there are %d", len(all), len(regs.Blocks))
	}
	for i := range regs.Blocks {
		b := &regs.Blocks[i]
		methods := reflect.ValueOf(all[b.Name])
		found := 0
		for j := range b.Registers {
			r := &b.Registers[j]
			at := fmt.Sprintf("%d %#x", r.Bits, b.Address(b.Count-1, r, r.Count-1))
			var index []reflect.Value
			if r.Count > 1 {
				index = append(index, reflect.ValueOf(int(r.Count-1)))
			}
			get, set := methods.MethodByName(camel(r.Name)), methods.MethodByName("Set"+camel(r.Name))
			writable := r.Mask(layout.RW)|r.Mask(layout.WO)|r.Mask(layout.RW1C) != 0
			readable := r.Mask(layout.RO)|r.Mask(layout.RW)|r.Mask(layout.RW1C) != 0
			if get.IsValid() != readable || set.IsValid() != writable {
				t.Errorf("%s.%s: getter %v, setter %v", b.Name, r.Name, get.IsValid(), set.IsValid())
				continue
			}
			if readable {
				found++
				if get.Call(index); bus.last != "R"+at {
					t.Errorf("%s.%s: %s, want R%s", b.Name, r.Name, bus.last, at)
				}
			}
			if writable {
				found++
				v := reflect.ValueOf(9).Convert(set.Type().In(set.Type().NumIn() - 1))
				if set.Call(append(index, v)); bus.last != "W"+at || bus.value != 9 {
					t.Errorf("%s.%s: %s of %d, want W%s", b.Name, r.Name, bus.last, bus.value, at)
				}
			}
		}
		if found != methods.NumMethod() {
			t.Errorf("%s: %d accessors, %d methods", b.Name, found, methods.NumMethod())
		}
	}
}

func TestSigned(t *testing.T) {
	bus := &recorder{}
	d := regs.DestOf(bus, 0)
	if v := d.TxNs(); v != -1<<63+1 {
		t.Errorf("%d", v)
	}
	if d.SetRxNs(-3); bus.value != ^uint64(2) {
		t.Errorf("%#x", bus.value)
	}
}

// A field changes its bits only, and a value that is too large does not reach other fields.
func TestFields(t *testing.T) {
	v := regs.DestCapsWord(0xaaaaaaaa).WithCaps(0x12345)
	if v != 0xaaaa2345 || v.Caps() != 0x2345 {
		t.Errorf("%#x", v)
	}
	n := regs.NodesNode(0).WithPort(7).WithValid(true)
	if n != 0x301 || n.Port() != 3 || !n.Valid() || n.WithValid(false).Valid() {
		t.Errorf("%#x", n)
	}
	mac := regs.PortsMac(0xffff << 48).WithAddress(0x0200_0000_0001)
	if mac != 0xffff_0200_0000_0001 || mac.Address() != 0x0200_0000_0001 {
		t.Errorf("%#x", mac)
	}
}

func TestIndexOutOfRange(t *testing.T) {
	for name, use := range map[string]func(){
		"block":    func() { regs.DestOf(&recorder{}, regs.DestCount) },
		"negative": func() { regs.PortsOf(&recorder{}, -1) },
		"register": func() { regs.NodesOf(&recorder{}).Addr(regs.NodesAddrCount) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			use()
		}()
	}
}

// Port 2 is switched on; other bits of its register keep their values.
func Example() {
	bus := &recorder{}
	port := regs.PortsOf(bus, 2)
	port.SetControl(port.Control().WithEnable(true))
	fmt.Printf("%s = %#x\n", bus.last, bus.value)
	// Output: W32 0x1800 = 0x80000001
}
