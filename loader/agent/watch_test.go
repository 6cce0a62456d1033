// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	ebpflink "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/inspect"
	"github.com/softroce/softroce-xdp/loader/pacer"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// watched is an agent whose looks at the interface a test makes.
type watched struct {
	*testing.T
	*Agent
	link netlink.Link
	o    loader.Options
	now  uint64

	aged bool // the age of the report counts; else the test may take any time
}

// onWatched runs a test with an agent that paces one destination.
func onWatched(t *testing.T, o loader.Options, f func(w *watched)) {
	o.Pacer = pacer.HTB
	onAttached(t, o, func(t *testing.T, l netlink.Link, o loader.Options) {
		w := &watched{T: t, Agent: mustOpen(t, o), link: l, o: o, now: loader.Monotonic()}
		if !w.addEntry(peerN(2), 0, 0, 0) {
			t.Fatal("no entry")
		}
		f(w)
	})
}

// lookAfter makes the agent's look, some time after the last one.
func (w *watched) lookAfter(d time.Duration) {
	w.now += uint64(d)
	w.watch.look(w.Agent, w.now)
}

// found returns what status finds on the interface, with the notes of the agent.
func (w *watched) found() []inspect.Finding {
	w.Helper()
	att, err := loader.Open(topo.IfName, w.o)
	if err != nil {
		w.Fatal(err)
	}
	defer att.Close()
	found, err := inspect.Inspect(att, topo.IfName)
	if err != nil {
		w.Fatal(err)
	}
	if !w.aged {
		_ = w.att.TouchReport() // there may be none
	}
	report := inspect.ReadReport(w.o.RunDir, topo.IfName)
	return report.Merge(found)
}

// want checks that status finds these kinds and no others.
func (w *watched) want(when string, kinds ...inspect.Kind) (found []inspect.Finding) {
	w.Helper()
	found = w.found()
	var have []inspect.Kind
	for _, f := range found {
		have = append(have, f.Kind)
	}
	if fmt.Sprint(have) != fmt.Sprint(kinds) {
		w.Errorf("%s: found %v, want %v: %+v", when, have, kinds, found)
	}
	return found
}

func (w *watched) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// root is a qdisc at the root of the interface.
func (w *watched) root(kind string, major uint16) netlink.Qdisc {
	attrs := netlink.QdiscAttrs{LinkIndex: w.link.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(major, 0)}
	return &netlink.GenericQdisc{QdiscAttrs: attrs, QdiscType: kind}
}

func (w *watched) clsact() netlink.Qdisc {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: w.link.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
}

// detach detaches a link of the attachment, as `bpftool link detach` does.
func (w *watched) detach(pin string) {
	l, err := ebpflink.LoadPinnedLink(filepath.Join(w.att.Dir, pin), nil)
	w.must(err)
	defer l.Close()
	w.must(l.Detach())
}

// What somebody removes, status finds at once, and the agent creates again.
func TestWatchRepairs(t *testing.T) {
	const major = 0x5352
	for _, hook := range []loader.EgressHook{loader.EgressTCX, loader.EgressClsact} {
		t.Run(string(hook), func(t *testing.T) {
			onWatched(t, loader.Options{Egress: hook}, func(w *watched) {
				w.lookAfter(0)
				w.want("nothing was changed")
				for _, c := range []struct {
					name   string
					kind   inspect.Kind
					damage func()
					hidden bool // the attachment is hidden from a command: without pins or state it finds none
				}{
					{"root qdisc", inspect.Qdisc, func() { w.must(netlink.QdiscDel(w.root("htb", major))) }, false},
					{"class", inspect.Classes, func() {
						w.must(netlink.ClassDel(netlink.NewHtbClass(netlink.ClassAttrs{
							LinkIndex: w.link.Attrs().Index, Parent: netlink.MakeHandle(major, 0), Handle: netlink.MakeHandle(major, 1),
						}, netlink.HtbClassAttrs{})))
					}, false},
					{"XDP link", inspect.Ingress, func() { w.detach("link_ingress") }, false},
					{"egress", inspect.Egress, func() {
						if hook == loader.EgressTCX {
							w.detach("link_egress")
						} else {
							w.must(netlink.QdiscDel(w.clsact()))
						}
					}, false},
					{"egress filter", inspect.Egress, func() {
						if hook == loader.EgressTCX {
							w.detach("link_egress")
							return
						}
						filters, err := netlink.FilterList(w.link, netlink.HANDLE_MIN_EGRESS)
						w.must(err)
						for _, f := range filters {
							w.must(netlink.FilterDel(f))
						}
					}, false},
					{"one pin", inspect.Pins, func() { w.must(os.Remove(filepath.Join(w.att.Dir, "events"))) }, true},
					{"all pins", inspect.Pins, func() { w.must(os.RemoveAll(w.att.Dir)) }, true},
					{"state file", inspect.State, func() { w.must(os.Remove(filepath.Join(w.o.RunDir, "eth0.json"))) }, true},
					{"state file that is a pipe", inspect.State, func() {
						path := filepath.Join(w.o.RunDir, "eth0.json")
						w.must(os.Remove(path))
						w.must(unix.Mkfifo(path, 0o600))
					}, true},
					{"run directory", inspect.State, func() { w.must(os.RemoveAll(w.o.RunDir)) }, true},
					{"damaged state file", inspect.State, func() { w.must(os.WriteFile(filepath.Join(w.o.RunDir, "eth0.json"), []byte("{"), 0o644)) }, true},
				} {
					before := w.watch.report.Repairs[c.kind]
					c.damage()
					if !c.hidden {
						w.want(c.name+" was removed", c.kind)
					}
					w.lookAfter(time.Hour)
					if n := w.watch.report.Repairs[c.kind] - before; n != 1 {
						t.Errorf("%s: %d repairs, want 1: %+v", c.name, n, w.watch.report)
					}
					w.want(c.name + " was repaired")
				}
				// The class is as it was, with the queue of the pacer.
				if n, ok, err := w.pacer.Backlog(netlink.MakeHandle(major, 1)); n != 0 || !ok || err != nil {
					t.Errorf("backlog of the class: %d, %v, %v", n, ok, err)
				}
				leaf, err := netlink.QdiscList(w.link)
				if w.must(err); !strings.Contains(fmt.Sprint(leaf), "5352:1") {
					t.Errorf("qdiscs: %v", leaf)
				}
			})
		})
	}
}

// What somebody else has put in the place of a part stays, and is named. An upgrade takes it back.
func TestWatchLeavesOthers(t *testing.T) {
	onWatched(t, loader.Options{Egress: loader.EgressTCX}, func(w *watched) {
		says := func(f []inspect.Finding, text string) {
			w.Helper()
			if len(f) != 1 || !strings.Contains(f[0].Text, text) || !strings.Contains(f[0].Text, "`softroce-xdp attach --upgrade eth0`") || f[0].Repairable {
				w.Errorf("%+v, want %q", f, text)
			}
		}
		upgrade := func() {
			a, err := loader.Upgrade(topo.IfName, w.o)
			w.must(err)
			a.Close()
		}
		next := func() { // as the agent that upgrade starts
			w.Agent.close()
			a, err := open(topo.IfName, w.o, w.log)
			w.must(err)
			w.must(a.prepare())
			*w.Agent = *a
			w.lookAfter(time.Second)
		}
		w.must(netlink.QdiscReplace(w.root("pfifo", 7)))
		w.lookAfter(time.Second)
		says(w.want("other root qdisc", inspect.Qdisc), "the root qdisc pfifo 7: is not that of the pacer")
		upgrade()
		next()
		w.want("root qdisc, after upgrade")

		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.SchedCLS, Name: "theirs", License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		})
		w.must(err)
		defer prog.Close()
		theirs, err := ebpflink.AttachTCX(ebpflink.TCXOptions{Program: prog, Interface: w.link.Attrs().Index, Attach: ebpf.AttachTCXEgress, Anchor: ebpflink.Head()})
		w.must(err)
		defer theirs.Close()
		w.lookAfter(time.Second)
		says(w.want("program in front", inspect.Order), `program "theirs"`)
		upgrade()
		next()
		w.want("program in front, after upgrade")
		if info, err := theirs.Info(); err != nil || info.TCX().Ifindex == 0 {
			w.Errorf("their program: %+v, %v", info, err)
		}

		xdp, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.XDP, Name: "theirs_xdp", License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()},
		})
		w.must(err)
		defer xdp.Close()
		w.detach("link_ingress")
		w.must(netlink.LinkSetXdpFd(w.link, xdp.FD()))
		w.lookAfter(time.Second)
		says(w.want("other XDP program", inspect.Ingress), `program "theirs_xdp"`)
		if a, err := loader.Upgrade(topo.IfName, w.o); err == nil {
			a.Close()
			w.Error("an upgrade in the place of another XDP program is no error")
		} else if !strings.Contains(err.Error(), "theirs_xdp") {
			w.Error(err)
		}
		w.must(netlink.LinkSetXdpFd(w.link, -1))
		w.lookAfter(time.Second)
		w.want("other XDP program was removed")
	})
}

// An upgrade attaches what somebody has removed while no agent ran.
func TestUpgradeRestores(t *testing.T) {
	for _, hook := range []loader.EgressHook{loader.EgressTCX, loader.EgressClsact} {
		t.Run(string(hook), func(t *testing.T) {
			onWatched(t, loader.Options{Egress: hook}, func(w *watched) {
				w.lookAfter(0)
				if hook == loader.EgressTCX {
					w.detach("link_egress")
				} else {
					w.must(netlink.QdiscDel(w.clsact()))
				}
				w.detach("link_ingress")
				w.want("removed", inspect.Ingress, inspect.Egress)
				a, err := loader.Upgrade(topo.IfName, w.o)
				w.must(err)
				a.Close()
				w.want("upgraded")
			})
		})
	}
}

// A new TCX program is attached before those that are there.
func TestAttachAtTheHead(t *testing.T) {
	onHost(t, func(l netlink.Link) {
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer prog.Close()
		theirs, err := ebpflink.AttachTCX(ebpflink.TCXOptions{Program: prog, Interface: l.Attrs().Index, Attach: ebpf.AttachTCXEgress})
		if err != nil {
			t.Fatal(err)
		}
		defer theirs.Close()
		o := loader.Options{PinRoot: fmt.Sprintf("/sys/fs/bpf/srx-agent-test-%d-%s", os.Getpid(), t.Name()), RunDir: t.TempDir(), Egress: loader.EgressTCX}
		a, err := loader.Attach(topo.IfName, o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := loader.Detach(topo.IfName, o); err != nil {
				t.Error(err)
			}
		}()
		defer a.Close()
		if h, err := a.Egress(); err != nil || !h.Ours || len(h.Others) > 0 {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

// Before the first destination there is no root qdisc of the pacer, and another one prevents it.
func TestWatchBeforeFirstDestination(t *testing.T) {
	onAttached(t, loader.Options{Pacer: pacer.HTB}, func(t *testing.T, l netlink.Link, o loader.Options) {
		w := &watched{T: t, Agent: mustOpen(t, o), link: l, o: o, now: loader.Monotonic()}
		w.lookAfter(0)
		w.want("nothing was changed")
		w.must(netlink.QdiscReplace(w.root("pfifo", 7)))
		w.lookAfter(time.Second)
		w.want("other root qdisc", inspect.Qdisc)
		w.must(netlink.QdiscDel(w.root("pfifo", 7)))
		w.lookAfter(time.Second)
		w.want("other root qdisc was removed")
	})
}

// The agent repairs a part three times within an hour, and says so then.
func TestWatchGivesUp(t *testing.T) {
	onWatched(t, loader.Options{}, func(w *watched) {
		remove := func() { w.must(netlink.QdiscDel(w.root("htb", 0x5352))) }
		for range repairsPerHour {
			remove()
			w.lookAfter(time.Second)
			w.want("repaired")
		}
		remove()
		w.lookAfter(time.Second)
		if f := w.want("removed for the fourth time", inspect.Qdisc); len(f) != 1 || !strings.Contains(f[0].Note, "3 times within an hour") {
			w.Errorf("%+v", f)
		}
		w.lookAfter(time.Hour)
		w.want("an hour later")
	})
}

// A failed repair is tried again later, and its error is reported.
func TestRepairs(t *testing.T) {
	var r repairs
	now := uint64(time.Hour)
	if !r.due(now) || r.String() != "" {
		t.Errorf("the first one: %v", &r)
	}
	r.note(errors.New("busy"), now)
	if r.due(now+second) || r.String() != "the agent could not: busy" {
		t.Errorf("after a failure: %v", &r)
	}
	now += uint64(repairAgain)
	for range repairsPerHour {
		if !r.due(now) {
			t.Errorf("not due: %v", &r)
		}
		r.note(nil, now)
		now += second
	}
	if r.due(now) || r.due(now+uint64(time.Hour)-10*second) || !r.due(now+uint64(time.Hour)) {
		t.Error("more than three within an hour, or none after it")
	}
}

// Counters are sampled each minute. The report has the sample before the last one, so that status
// judges the growth of one to two minutes.
func TestWatchSamples(t *testing.T) {
	onWatched(t, loader.Options{}, func(w *watched) {
		var number uint32
		for _, r := range bpf.Reasons() {
			if r.Name == "tx_too_big" {
				number = r.Number
			}
		}
		perCPU := make([]uint64, ebpf.MustPossibleCPU())
		set := func(n uint64) {
			perCPU[0] = n
			w.must(w.att.Maps.Stats.Put(number, perCPU))
		}
		for _, c := range []struct{ count, base uint64 }{{7, 7}, {9, 7}, {9, 9}, {9, 9}} {
			set(c.count)
			w.lookAfter(sampleTime)
			if got := inspect.ReadReport(w.o.RunDir, topo.IfName).Counters["tx_too_big"]; got != c.base {
				t.Errorf("counter %d: growth since %d, want %d", c.count, got, c.base)
			}
		}
	})
}

// Without a present report of the agent, status says so: it cannot know what the agent has found.
func TestReportMissing(t *testing.T) {
	onWatched(t, loader.Options{}, func(w *watched) {
		path := loader.ReportPath(w.o.RunDir, topo.IfName)
		w.want("before the first look", inspect.Unread)
		w.lookAfter(time.Second)
		w.want("after a look")
		old := time.Now().Add(-time.Minute)
		w.must(os.Chtimes(path, old, old))
		w.aged = true
		w.want("a minute old", inspect.Unread)
		w.aged = false
		w.lookAfter(time.Second)
		w.want("after the next look")
		w.must(os.Remove(path))
		w.lookAfter(time.Second)
		w.want("removed")
		w.must(os.Remove(path))
		w.must(unix.Mkfifo(path, 0o600))
		if f := w.want("no regular file", inspect.Unread); len(f) == 1 && !strings.Contains(f[0].Text, "is no regular file") {
			t.Error(f[0].Text)
		}
	})
}

// A pacer that the kernel refuses, and control packets that it refuses, are reported while they last.
func TestWatchRefused(t *testing.T) {
	onWatched(t, loader.Options{}, func(w *watched) {
		w.sockets.close()
		w.sockets.fd4 = -1
		w.watch.refused, w.watch.refusedAt = unix.EMFILE, w.now
		w.lookAfter(time.Second)
		if f := w.want("no descriptor", inspect.Hello); len(f) == 1 && !strings.Contains(f[0].Text, "too many open files") {
			t.Error(f[0].Text)
		}
		w.lookAfter(refusedTime)
		w.want("a minute later")
	})
}

// A destination that was sent much and has never had feedback is found.
func TestFeedback(t *testing.T) {
	onWatched(t, loader.Options{}, func(w *watched) {
		w.lookAfter(0)
		row, _, err := w.att.Lookup(peerN(2))
		w.must(err)
		d := row.Regs
		d.TxPackets, d.LastTxNs = 5000, loader.Monotonic()
		w.must(w.att.Maps.DestTable.Put(keyN(2), d))
		if f := w.want("no feedback", inspect.Feedback); len(f) == 1 && !strings.Contains(f[0].Text, "10.0.0.2 was sent 5000 packets and has never had feedback") {
			t.Error(f[0].Text)
		}
		d.RttNs = 1000
		w.must(w.att.Maps.DestTable.Put(keyN(2), d))
		w.want("with an RTT")
	})
}
