// SPDX-License-Identifier: Apache-2.0

package view

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/loop"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/inspect"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// rows are three destinations: one measured, one that echoes nothing, one new.
func rows() []loader.Row {
	fresh := bpf.DestRegs{WinTxNs: bpf.NoSample, WinRxNs: bpf.NoSample, WinRttNs: bpf.NoSample}
	a, b, c := fresh, fresh, fresh
	a.Node, a.Caps = 2, bpf.CapStamp
	a.TxNs, a.RxNs, a.InTxNs, a.WinTxNs = 112_300, 85_000, -1_250_000, 111_000
	a.RateBps, a.TxPackets, a.TxBytes, a.RxPackets, a.RxBytes = 97_300_000, 12_600, 14_000_000, 800, 48_000
	a.Ces, a.Cnps, a.Naks = 3, 2, 1
	p := bpf.PolicyAs[fourcase.Regs](&a.Policy)
	p.State, p.QueueingTxNs, p.QueueingRxNs, p.CaseNo, p.Row, p.Action = fourcase.StateBase, 12_000, 900, 2, 5, fourcase.ActionCut
	a.Bound = uint8(loop.BoundReceiver)
	b.Node, b.RateBps, b.TxPackets = 1, 1_000_000_000, 7
	return []loader.Row{
		{Addr: netip.MustParseAddr("10.0.0.10"), Regs: a},
		{Addr: netip.MustParseAddr("fd00::2"), Regs: b},
		{Addr: netip.MustParseAddr("10.0.0.9"), Regs: c},
	}
}

func text(t *Table) string { return "\n" + strings.Join(cli.Align(t.Cells()), "\n") + "\n" }

func TestTable(t *testing.T) {
	tab := TableOf("eth0", rows(), time.Unix(0, 0), nil)
	if err := tab.Sort("node"); err != nil {
		t.Fatal(err)
	}
	const want = `
NODE  ADDRESS    STAMPS     TX    RX    IN_TX  Q_TX   Q_RX  CASE  ACTION   RATE  BOUND     TX_PKTS  TX_BYTES  RX_PKTS  RX_BYTES  RETX  CE  NAK  RNR
   1  fd00::2    no          -     -        -     -      -     -  -          1G  -               7         0        0         0     0   0    0    0
   2  10.0.0.10  yes     112us  85us  -1.25ms  12us  900ns     2  cut     97.3M  receiver    12.6k       14M      800       48k     0   5    1    0
   -  10.0.0.9   no          -     -        -     -      -     -  -           -  -               0         0        0         0     0   0    0    0
`
	if diff := cmp.Diff(want, text(tab)); diff != "" {
		t.Error(diff)
	}
}

// Throughput is what was added since the snapshot before; a destination that was
// not in it counts from zero.
func TestThroughput(t *testing.T) {
	before := TableOf("eth0", rows()[:1], time.Unix(0, 0), nil)
	next := rows()
	next[0].Regs.TxBytes += 1_000_000
	next[1].Regs.TxBytes = 500
	tab := TableOf("eth0", next, time.Unix(2, 0), before)
	for i, want := range []uint64{4_000_000, 2000, 0} {
		if got := *tab.Destinations[i].SendingBps; got != want {
			t.Errorf("destination %d sends %d bit/s, want %d", i, got, want)
		}
	}
	if err := tab.Sort("sending"); err != nil || tab.Destinations[0].Address != "10.0.0.10" {
		t.Errorf("sorted by sending: %v first (%v)", tab.Destinations[0].Address, err)
	}
	if !strings.Contains(text(tab), "SENDING") {
		t.Error("no column SENDING")
	}
}

func TestSortKeys(t *testing.T) {
	keys := SortKeys()
	slices.Sort(keys)
	if n := len(slices.Compact(slices.Clone(keys))); n != len(keys) {
		t.Error("two columns have the same key")
	}
	for _, key := range keys {
		a, b := TableOf("x", rows(), time.Unix(0, 0), nil), TableOf("x", rows(), time.Unix(0, 0), nil)
		slices.Reverse(b.Destinations)
		if err := a.Sort(key); err != nil {
			t.Fatal(err)
		}
		if err := b.Sort(key); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a.Destinations, b.Destinations); diff != "" {
			t.Errorf("%s: the order depends on that before:\n%s", key, diff)
		}
	}
	if err := TableOf("x", nil, time.Unix(0, 0), nil).Sort("height"); err == nil {
		t.Error("sorted by a column that does not exist")
	}
}

// The agent samples the counters whose growth is a problem.
func TestWorryingCountersAreSampled(t *testing.T) {
	for _, w := range worrying {
		if !inspect.Judged(w.name) {
			t.Errorf("%s is not sampled", w.name)
		}
	}
}

// That the NIC hides VLAN tags is a line of its own, and no problem: most NICs do.
func TestStatusOfHiddenTags(t *testing.T) {
	const hidden = "the NIC removes VLAN tags: `ethtool -K eth0 rx-vlan-offload off`"
	in := StatusInput{
		State: loader.State{Interface: "eth0", Version: "v1", RateFrom: "ethtool"}, Version: "v1",
		AgentAlive: true, IfaceAlive: true, HiddenTags: hidden,
	}
	s := StatusOf(in)
	if len(s.Problems) != 0 {
		t.Errorf("problems %q, want none", s.Problems)
	}
	var out strings.Builder
	s.Write(&out)
	if !strings.Contains(out.String(), hidden+"\n") {
		t.Errorf("it is not shown:\n%s", out.String())
	}
	b, err := json.Marshal(s)
	if want := `"vlan":"the NIC removes`; err != nil || !strings.Contains(string(b), want) {
		t.Errorf("%s, %v: want %s", b, err, want)
	}
	s.Elsewhere("attached in another network namespace")
	if s.VLAN != "" {
		t.Errorf("of another network namespace: %q, which names a command that does not work here", s.VLAN)
	}
}

func TestStatusProblems(t *testing.T) {
	healthy := func() StatusInput {
		in := StatusInput{
			State: loader.State{Interface: "eth0", Version: "v1", RateFrom: "ethtool", AgentPID: 42}, Version: "v1",
			AgentAlive: true, IfaceAlive: true, MonoNs: 10e9, Now: time.Unix(100, 0),
		}
		in.Config.HeartbeatNs, in.Config.HeartbeatTimeoutNs, in.Config.LinkRateBps = 9_990_000_000, 3e9, 25e9
		return in
	}
	for _, c := range []struct {
		name   string
		change func(*StatusInput)
		want   string // "" = no problem
	}{
		{"healthy", func(*StatusInput) {}, ""},
		{"agent just died", func(in *StatusInput) { in.AgentAlive = false }, "the last rates stay until the heartbeat times out"},
		{"agent dead", func(in *StatusInput) { in.AgentAlive = false; in.MonoNs = 20e9 }, "traffic goes unpaced and no new peer is stamped; run `softroce-xdp attach eth0`"},
		{"agent hangs", func(in *StatusInput) { in.MonoNs = 20e9 }, "the agent (pid 42) lives but its heartbeat is 10s old"},
		{"old programs", func(in *StatusInput) { in.State.Version = "v0" }, "run `softroce-xdp attach --upgrade eth0`"},
		{"unknown speed", func(in *StatusInput) { in.State.RateFrom = "default" }, "25G is assumed: attach with --rate"},
		{"interface gone", func(in *StatusInput) { in.IfaceAlive = false; in.AgentAlive = false }, "run `softroce-xdp clean`"},
		{"table full", func(in *StatusInput) {
			in.Stats = []loader.Stat{{Reason: bpf.Reason{Name: "tx_table_full"}, Count: 9}}
		}, "tx_table_full 9 in the last minutes: destinations found no room"},
		{"too big", func(in *StatusInput) {
			in.Stats = []loader.Stat{{Reason: bpf.Reason{Name: "tx_too_big"}, Count: 9}}
		}, "see `softroce-xdp features eth0`"},
		{"too big in the past", func(in *StatusInput) {
			in.Stats = []loader.Stat{{Reason: bpf.Reason{Name: "tx_too_big"}, Count: 9}}
			in.Report.Counters = map[string]uint64{"tx_too_big": 9}
		}, ""},
		{"too big again", func(in *StatusInput) {
			in.Stats = []loader.Stat{{Reason: bpf.Reason{Name: "tx_too_big"}, Count: 12}}
			in.Report.Counters = map[string]uint64{"tx_too_big": 9}
		}, "tx_too_big 3 in the last minutes"},
		{"report of an earlier attachment", func(in *StatusInput) {
			in.Stats = []loader.Stat{{Reason: bpf.Reason{Name: "tx_too_big"}, Count: 2}}
			in.Report.Counters = map[string]uint64{"tx_too_big": 9}
		}, "tx_too_big 2 in the last minutes"},
		{"no report of the agent", func(in *StatusInput) { in.Report.Missing = errors.New("it is gone") }, "the agent does not report (it is gone)"},
		{"no report without an agent", func(in *StatusInput) { in.Report.Missing, in.AgentAlive = errors.New("it is gone"), false }, "no agent runs"},
		{"a finding", func(in *StatusInput) {
			in.Findings = []inspect.Finding{{Kind: inspect.Qdisc, Text: "the root qdisc is gone", Repairable: true}}
		}, "the root qdisc is gone"},
		{"a finding that the agent does not repair", func(in *StatusInput) {
			in.Findings = []inspect.Finding{{Kind: inspect.Qdisc, Text: "the root qdisc is gone", Repairable: true}}
			in.Report.Findings = []inspect.Finding{{Kind: inspect.Qdisc, Text: "the root qdisc is gone", Note: "three times is enough"}}
		}, "the root qdisc is gone (three times is enough)"},
		{"a finding of the agent alone", func(in *StatusInput) {
			in.Report.Findings = []inspect.Finding{{Kind: inspect.Pacer, Text: "the kernel refuses"}, {Kind: inspect.Qdisc, Text: "is repaired by now"}}
		}, "the kernel refuses"},
	} {
		in := healthy()
		c.change(&in)
		got := StatusOf(in).Problems
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: %q, want no problem", c.name, got)
		case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
			t.Errorf("%s: %q, want one with %q", c.name, got, c.want)
		}
	}
}

// The counters that status speaks of exist.
func TestCountersExist(t *testing.T) {
	names := slices.Clone(headline)
	for _, w := range worrying {
		names = append(names, w.name)
	}
	for _, n := range names {
		if _, ok := bpf.ReasonNumber(n); !ok {
			t.Errorf("no counter %s in bpf/lib/reasons.h", n)
		}
	}
}

// The limit of the engine is a column of the live table, for destinations of an engine only.
func TestLimitColumn(t *testing.T) {
	all := rows()
	all[0].Regs.EnginePackets, all[0].Regs.EngineLimit = 9, uint8(qp.LimitCongestionWindow)
	all[1].Regs.EngineLimit = uint8(qp.LimitPacer) // of an engine that has sent nothing
	tab := TableOf("eth0", all, time.Unix(1, 0), TableOf("eth0", rows(), time.Unix(0, 0), nil))
	cells := tab.Cells()
	at := slices.Index(cells[0], "LIMIT")
	if at < 0 {
		t.Fatalf("no column LIMIT: %q", cells[0])
	}
	if a, b := cells[1][at], cells[2][at]; a != "congestion window" || b != "-" {
		t.Errorf("%q and %q, want congestion window and -", a, b)
	}
}
