// SPDX-License-Identifier: Apache-2.0

package pacer_test

import (
	"fmt"
	"maps"
	"math"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/loader/pacer"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// onHost runs a test inside a namespace with an interface of its own.
func onHost(t *testing.T, f func(t *testing.T, l netlink.Link)) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(1)})
	h := top.Host(1)
	if err := h.Do(func() error {
		l, err := netlink.LinkByName(topo.IfName)
		if err != nil {
			return err
		}
		f(t, l)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func qdiscs(t *testing.T, l netlink.Link) string {
	t.Helper()
	list, err := netlink.QdiscList(l)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, q := range list {
		b.WriteString(q.Type() + " " + q.Attrs().String() + "\n")
	}
	return b.String()
}

func TestHTB(t *testing.T) {
	onHost(t, func(t *testing.T, l netlink.Link) {
		before := qdiscs(t, l)
		p, err := pacer.Setup(l, pacer.HTB)
		if err != nil {
			t.Fatal(err)
		}
		if p.Kind() != pacer.HTB || !p.OwnQdisc() {
			t.Errorf("%s, own qdisc %v", p.Kind(), p.OwnQdisc())
		}
		if now := qdiscs(t, l); now != before {
			t.Errorf("nothing is paced yet, and the qdiscs have changed:\n%s", now)
		}
		a, err := p.SetRate(0, 100e6)
		if err != nil {
			t.Fatal(err)
		}
		b, err := p.SetRate(0, 40e9) // more than 32 bits of bytes per second
		if err != nil || a == b || a == 0 || b == 0 {
			t.Fatalf("classes %x and %x, %v", a, b, err)
		}
		if again, err := p.SetRate(a, 50e6); err != nil || again != a {
			t.Errorf("a change of rate made class %x of %x: %v", again, a, err)
		}
		if rates := classRates(t, l); rates[a] != 50e6/8 || rates[b] != 40e9/8 || len(rates) != 2 {
			t.Errorf("rates in bytes per second: %v", rates)
		}
		if n, ok, err := p.Backlog(a); n != 0 || !ok || err != nil {
			t.Errorf("backlog %d %v %v", n, ok, err)
		}
		if _, _, err := p.Backlog(a + 100); err == nil {
			t.Error("backlog of a class that is not there")
		}

		// The next agent goes on behind the classes that exist.
		p, err = pacer.Adopt(l, pacer.HTB, true)
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.SetRate(0, 1e6)
		if err != nil || c == a || c == b {
			t.Errorf("class %x: %v", c, err)
		}
		if err := p.Release(c); err != nil {
			t.Error(err)
		}
		if err := p.Release(c); err != nil {
			t.Errorf("released twice: %v", err)
		}

		// With the last class the qdisc goes, and it comes back with the next.
		for _, class := range []uint32{b, a} {
			if now := qdiscs(t, l); !strings.Contains(now, "htb") {
				t.Errorf("class %x is there, htb is not:\n%s", class, now)
			}
			if err := p.Release(class); err != nil {
				t.Error(err)
			}
		}
		if after := qdiscs(t, l); after != before {
			t.Errorf("before:\n%safter the last class:\n%s", before, after)
		}
		if err := p.Release(a); err != nil {
			t.Errorf("released twice, without htb: %v", err)
		}
		if p, err = pacer.Adopt(l, pacer.HTB, true); err != nil {
			t.Fatal(err)
		}
		if a, err = p.SetRate(0, 1e6); err != nil || classRates(t, l)[a] != 1e6/8 {
			t.Errorf("class %x, %v: %v", a, err, classRates(t, l))
		}
		if err := pacer.Restore(l); err != nil {
			t.Error(err)
		}
		if after := qdiscs(t, l); after != before {
			t.Errorf("before:\n%safter:\n%s", before, after)
		}

		// Prepared it comes at once, and stays without classes.
		if p, err = pacer.Setup(l, pacer.HTB); err != nil {
			t.Fatal(err)
		}
		if err := p.Prepare(); err != nil || !strings.Contains(qdiscs(t, l), "htb") {
			t.Errorf("prepared: %v\n%s", err, qdiscs(t, l))
		}
		if a, err = p.SetRate(0, 1e6); err != nil {
			t.Error(err)
		}
		if err := p.Release(a); err != nil || !strings.Contains(qdiscs(t, l), "htb") {
			t.Errorf("without classes: %v\n%s", err, qdiscs(t, l))
		}
		if err := pacer.Restore(l); err != nil {
			t.Error(err)
		}
	})
}

// HTB counts whole bytes per second: a lower rate than 8 bit/s becomes that.
func TestSlowClass(t *testing.T) {
	onHost(t, func(t *testing.T, l netlink.Link) {
		p, err := pacer.Setup(l, pacer.HTB)
		if err != nil {
			t.Fatal(err)
		}
		class, err := p.SetRate(0, 1)
		if err != nil || classRates(t, l)[class] != 1 {
			t.Errorf("class %x, %v: %v", class, err, classRates(t, l))
		}
	})
}

// The condition follows what others do to the qdiscs, and a repair creates what they remove. It
// changes nothing of theirs.
func TestCondition(t *testing.T) {
	onHost(t, func(t *testing.T, l netlink.Link) {
		p, err := pacer.Setup(l, pacer.HTB)
		if err != nil {
			t.Fatal(err)
		}
		is := func(when string, want pacer.Condition) {
			t.Helper()
			if c, err := p.Check(); err != nil || c != want {
				t.Errorf("%s: %+v, %v; want %+v", when, c, err, want)
			}
		}
		root := func(kind string, major uint16) netlink.Qdisc {
			return &netlink.GenericQdisc{QdiscType: kind, QdiscAttrs: netlink.QdiscAttrs{
				LinkIndex: l.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(major, 0),
			}}
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		is("without classes", pacer.Condition{})
		rates := map[uint32]uint64{}
		for i := range uint64(3) {
			class, err := p.SetRate(0, (i+1)*1e6)
			must(err)
			rates[class] = (i + 1) * 1e6 / 8
		}
		is("with classes", pacer.Condition{})
		must(netlink.QdiscDel(root("htb", 0x5352)))
		is("removed", pacer.Condition{Gone: true})
		must(p.Repair())
		is("repaired", pacer.Condition{})
		if got := classRates(t, l); !maps.Equal(got, rates) {
			t.Errorf("rates %v, want %v", got, rates)
		}
		must(netlink.QdiscReplace(root("pfifo", 7)))
		is("replaced", pacer.Condition{Other: "pfifo 7:"})
		must(p.Repair())
		is("replaced, and repaired", pacer.Condition{Other: "pfifo 7:"})
		if removed, err := pacer.TakeBack(l, pacer.HTB, true); removed != "pfifo 7:" || err != nil {
			t.Errorf("took back %q, %v", removed, err)
		}
		is("taken back", pacer.Condition{Gone: true})
		// An agent that starts then creates the classes of the table.
		if p, err = pacer.Adopt(l, pacer.HTB, true); err != nil {
			t.Fatal(err)
		}
		for class, bytes := range rates {
			if again, err := p.SetRate(class, bytes*8); again != class || err != nil {
				t.Errorf("class %x became %x: %v", class, again, err)
			}
		}
		if got := classRates(t, l); !maps.Equal(got, rates) {
			t.Errorf("rates %v, want %v", got, rates)
		}
		if class, err := p.SetRate(0, 1e6); err != nil || rates[class] != 0 {
			t.Errorf("a new class has the number %x: %v", class, err)
		}
	})
}

// Somebody may configure a root qdisc between attach and the first destination.
func TestHTBComesTooLate(t *testing.T) {
	onHost(t, func(t *testing.T, l netlink.Link) {
		p, err := pacer.Setup(l, pacer.HTB)
		if err != nil {
			t.Fatal(err)
		}
		theirs := netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(7, 0)})
		if err := netlink.QdiscAdd(theirs); err != nil {
			t.Fatal(err)
		}
		before := qdiscs(t, l)
		if class, err := p.SetRate(0, 1e9); err == nil || !strings.Contains(err.Error(), "configured root qdisc (htb 7:)") {
			t.Errorf("class %x, %v", class, err)
		}
		if after := qdiscs(t, l); after != before {
			t.Errorf("before:\n%safter:\n%s", before, after)
		}
	})
}

func classRates(t *testing.T, l netlink.Link) map[uint32]uint64 {
	t.Helper()
	list, err := netlink.ClassList(l, netlink.HANDLE_NONE)
	if err != nil {
		t.Fatal(err)
	}
	rates := map[uint32]uint64{}
	for _, c := range list {
		if h, ok := c.(*netlink.HtbClass); ok {
			rates[h.Handle] = h.Rate
		}
	}
	return rates
}

// A configured root qdisc is not replaced.
func TestConfiguredQdisc(t *testing.T) {
	onHost(t, func(t *testing.T, l netlink.Link) {
		theirs := netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(7, 0)})
		if err := netlink.QdiscAdd(theirs); err != nil {
			t.Fatal(err)
		}
		before := qdiscs(t, l)
		_, err := pacer.Setup(l, "auto")
		if err == nil || !strings.Contains(err.Error(), "configured root qdisc (htb 7:)") || !strings.Contains(err.Error(), "--pacer police or none") {
			t.Errorf("%v", err)
		}
		if err := pacer.Restore(l); err != nil {
			t.Error(err)
		}
		if after := qdiscs(t, l); after != before {
			t.Errorf("before:\n%safter:\n%s", before, after)
		}
	})
}

// An agent that adopts the classes of another one uses the numbers between them again: with many
// short-lived destinations and restarts there would be no number left.
func TestAdoptedHTBUsesFreeNumbers(t *testing.T) {
	onHost(t, func(t *testing.T, l netlink.Link) {
		p, err := pacer.Setup(l, pacer.HTB)
		if err != nil {
			t.Fatal(err)
		}
		var classes []uint32
		for range 5 {
			class, err := p.SetRate(0, 1e6)
			if err != nil {
				t.Fatal(err)
			}
			classes = append(classes, class)
		}
		free := map[uint32]bool{classes[0]: true, classes[2]: true, classes[3]: true}
		for class := range free {
			if err := p.Release(class); err != nil {
				t.Fatal(err)
			}
		}
		if p, err = pacer.Adopt(l, pacer.HTB, true); err != nil {
			t.Fatal(err)
		}
		for range len(free) {
			class, err := p.SetRate(0, 1e6)
			if err != nil || !free[class] {
				t.Errorf("class %x, %v: it was not free", class, err)
			}
			delete(free, class)
		}
		if class, err := p.SetRate(0, 1e6); err != nil || class != classes[4]+1 {
			t.Errorf("class %x, %v; want %x", class, err, classes[4]+1)
		}
	})
}

func TestPacersWithoutHelp(t *testing.T) {
	onHost(t, func(t *testing.T, l netlink.Link) {
		before := qdiscs(t, l)
		for _, name := range []pacer.Kind{pacer.Police, pacer.None} {
			p, err := pacer.Setup(l, name)
			if err != nil || p.Kind() != name || p.OwnQdisc() {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if class, err := p.SetRate(0, 1e9); class != 0 || err != nil {
				t.Errorf("%s: class %d, %v", name, class, err)
			}
		}
		if _, err := pacer.Setup(l, "fast"); err == nil || !strings.Contains(err.Error(), "choose auto, edt, htb, police or none") {
			t.Errorf("%v", err)
		}
		if after := qdiscs(t, l); after != before {
			t.Errorf("before:\n%safter:\n%s", before, after)
		}
	})
}

// A class has a burst of the length of Burst at its rate, and a queue of its own.
func TestClass(t *testing.T) {
	require.Command(t, "tc")
	onHost(t, func(t *testing.T, l netlink.Link) {
		p, err := pacer.Setup(l, pacer.HTB)
		if err != nil {
			t.Fatal(err)
		}
		for _, rate := range []uint64{10e6, 1e9} {
			class, err := p.SetRate(0, rate)
			if err != nil {
				t.Fatal(err)
			}
			list, err := netlink.ClassList(l, netlink.HANDLE_NONE)
			if err != nil {
				t.Fatal(err)
			}
			want := float64(pacer.Burst.Microseconds()) * netlink.TickInUsec()
			found := 0
			for _, c := range list {
				h, ok := c.(*netlink.HtbClass)
				if !ok || h.Handle != class {
					continue
				}
				found++
				if math.Abs(float64(h.Buffer)-want) > want/100 {
					t.Errorf("%d bit/s: the burst takes %d ticks, want %.0f", rate, h.Buffer, want)
				}
			}
			if found != 1 {
				t.Errorf("%d bit/s: the kernel has %d classes %x, want 1", rate, found, class)
			}
			out, err := exec.Command("tc", "qdisc", "show", "dev", topo.IfName).CombinedOutput()
			own := fmt.Sprintf("parent %x:%x limit 1048576p", class>>16, class&0xffff)
			if err != nil || !strings.Contains(string(out), own) {
				t.Errorf("%d bit/s: no queue with %q: %v\n%s", rate, own, err, out)
			}
		}
	})
}

// The number of a class that was released is the next one that is given.
func TestReleasedNumberIsFree(t *testing.T) {
	onHost(t, func(t *testing.T, l netlink.Link) {
		p, err := pacer.Setup(l, pacer.HTB)
		if err != nil {
			t.Fatal(err)
		}
		var classes [2]uint32
		for i := range classes {
			if classes[i], err = p.SetRate(0, 1e6); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Release(classes[0]); err != nil {
			t.Fatal(err)
		}
		if class, err := p.SetRate(0, 1e6); err != nil || class != classes[0] {
			t.Errorf("class %x, %v; want %x, which is free", class, err, classes[0])
		}
	})
}

// An agent that has adopted classes creates them again with the rates that they had.
func TestAdoptedClassesAreRepaired(t *testing.T) {
	onHost(t, func(t *testing.T, l netlink.Link) {
		p, err := pacer.Setup(l, pacer.HTB)
		if err != nil {
			t.Fatal(err)
		}
		for _, rate := range []uint64{1e6, 100e6} {
			if _, err := p.SetRate(0, rate); err != nil {
				t.Fatal(err)
			}
		}
		want := classRates(t, l)
		if p, err = pacer.Adopt(l, pacer.HTB, true); err != nil {
			t.Fatal(err)
		}
		if err := pacer.Restore(l); err != nil {
			t.Fatal(err)
		}
		if err := p.Repair(); err != nil {
			t.Fatal(err)
		}
		if got := classRates(t, l); len(want) != 2 || !maps.Equal(got, want) {
			t.Errorf("rates %v, want %v", got, want)
		}
	})
}
