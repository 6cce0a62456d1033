// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/pacer"
)

func TestCompare(t *testing.T) {
	silent := func(n byte) Silent { return Silent{netip.AddrFrom4([4]byte{10, 0, 0, n}), 5000} }
	for _, c := range []struct {
		name       string
		change     func(*Facts)
		kind       Kind // "" = nothing is found
		repairable bool
		says       string
	}{
		{"as attached", func(*Facts) {}, "", false, ""},
		{"XDP detached", func(f *Facts) { f.XDP.Ours = false }, Ingress, true, "the XDP program was detached"},
		{"another XDP program", func(f *Facts) { f.XDP = loader.Hook{Others: []string{`program "x" (id 7)`}} }, Ingress, false, `was replaced by program "x" (id 7)`},
		{"egress removed", func(f *Facts) { f.TC.Ours = false }, Egress, true, "the egress program (tcx) was removed"},
		{"egress removed, others there", func(f *Facts) { f.TC = loader.Hook{Others: []string{"x"}} }, Egress, true, "was removed"},
		{"program in front", func(f *Facts) { f.TC.Others = []string{"x"} }, Order, false, "x runs before the egress program"},
		{"four programs in front", func(f *Facts) { f.TC.Others = []string{"a", "b", "c", "d"} }, Order, false, "a, b, c and 1 more runs before"},
		{"filter in front", func(f *Facts) { f.Egress, f.TC.Others = loader.EgressClsact, []string{"x"} }, Order, false, "`tc filter show dev eth0 egress`"},
		{"another root qdisc", func(f *Facts) { f.Qdisc = pacer.Condition{Other: "pfifo 7:"} }, Qdisc, false, "the root qdisc pfifo 7: is not that of the pacer"},
		{"no root qdisc", func(f *Facts) { f.Qdisc = pacer.Condition{Gone: true} }, Qdisc, true, "was removed"},
		{"no classes", func(f *Facts) { f.Qdisc = pacer.Condition{Missing: 2} }, Classes, true, "2 classes"},
		{"pins", func(f *Facts) { f.LostPins = []string{"events"} }, Pins, true, "pins were removed: events"},
		{"state", func(f *Facts) { f.State = errors.New("it is damaged") }, State, true, "it is damaged"},
		{"queues", func(f *Facts) { f.Queues, f.Sockets = 4, 2 }, Queues, false, "4 receive queues, the engine has sockets for 2"},
		{"fewer queues", func(f *Facts) { f.Queues, f.Sockets = 2, 4 }, "", false, ""},
		{"queues without an engine", func(f *Facts) { f.Queues = 4 }, "", false, ""},
		{"no feedback", func(f *Facts) { f.Silent = []Silent{silent(2), silent(3)} }, Feedback, false, "10.0.0.2 was sent 5000 packets and has never had feedback, and 1 more"},
		{"not readable", func(f *Facts) { f.Errors = []error{errors.New("no memory")} }, Unread, false, "no memory"},
	} {
		f := &Facts{Interface: "eth0", Egress: loader.EgressTCX, XDP: loader.Hook{Ours: true}, TC: loader.Hook{Ours: true}}
		c.change(f)
		got := Compare(f)
		if c.kind == "" {
			if len(got) > 0 {
				t.Errorf("%s: %+v", c.name, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Kind != c.kind || got[0].Repairable != c.repairable || !strings.Contains(got[0].Text, c.says) {
			t.Errorf("%s: %+v, want %s %q, repairable %v", c.name, got, c.kind, c.says, c.repairable)
		}
		if !slices.Contains(Kinds(), c.kind) || c.repairable && !slices.Contains(RepairedKinds(), c.kind) {
			t.Errorf("%s: %s is not listed", c.name, c.kind)
		}
	}
}

func TestSilent(t *testing.T) {
	const now = uint64(100e9)
	for _, c := range []struct {
		name   string
		change func(*bpf.DestRegs)
		want   bool
	}{
		{"no feedback", func(*bpf.DestRegs) {}, true},
		{"few packets", func(d *bpf.DestRegs) { d.TxPackets = 999 }, false},
		{"not used now", func(d *bpf.DestRegs) { d.LastTxNs = now - 11e9 }, false},
		{"decisions", func(d *bpf.DestRegs) { d.Policy.Decisions = 1 }, false},
		{"an RTT", func(d *bpf.DestRegs) { d.RttNs = 1 }, false},
		{"an echo", func(d *bpf.DestRegs) { d.LastEchoT1Ns = 1 }, false},
	} {
		d := &bpf.DestRegs{TxPackets: 1000, LastTxNs: now - 1e9}
		c.change(d)
		if got := silent(d, now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
