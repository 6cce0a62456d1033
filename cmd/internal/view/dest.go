// SPDX-License-Identifier: Apache-2.0

// Package view converts what the loader reads into the output of the commands, for people and
// as JSON: columns and JSON of an interface and of a card are the same. It has no I/O of its own.
package view

import (
	"fmt"
	"io"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/loop"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Destination is one entry of the destination table. Times are nanoseconds,
// rates bits per second, as the registers hold them (docs/reference/tables.md); a window
// without a sample is null.
type Destination struct {
	Node         uint32   `json:"node"` // S1.2; 0 = not numbered yet
	Address      string   `json:"address"`
	Stamps       bool     `json:"stamps"` // packets to it get stamps
	Capabilities []string `json:"capabilities"`

	TxNs         int64 `json:"tx_ns"`    // S1.4
	RxNs         int64 `json:"rx_ns"`    // S1.4
	InTxNs       int64 `json:"in_tx_ns"` // S1.3
	TurnaroundNs int64 `json:"turnaround_ns"`
	RttNs        int64 `json:"rtt_ns"`

	Policy   Policy    `json:"policy"`
	Priority *Priority `json:"priority,omitempty"` // priority where the node file gives priorities
	Window   Window    `json:"window"`

	RateBps   uint64 `json:"rate_bps"`       // 0 = unpaced
	Bound     string `json:"bound"`          // bound that sets rate_bps; empty = not known
	StackBps  uint64 `json:"stack_rate_bps"` // part of rate_bps that the kernel stack may use
	EngineBps uint64 `json:"engine_rate_bps"`
	Limit     string `json:"engine_limit,omitempty"` // reason why a queue pair of the engine did not send at its last report
	NextTxNs  uint64 `json:"next_tx_ns"`
	PacedNs   uint64 `json:"paced_ns"`
	Class     uint32 `json:"class_id"`

	TxPackets      uint64 `json:"tx_packets"`
	TxBytes        uint64 `json:"tx_bytes"`
	EnginePackets  uint64 `json:"engine_packets"` // packets of tx_packets that the engine sent
	EngineBytes    uint64 `json:"engine_bytes"`
	TxUnstamped    uint64 `json:"tx_unstamped"`
	RxPackets      uint64 `json:"rx_packets"`
	RxBytes        uint64 `json:"rx_bytes"`
	RxUnstamped    uint64 `json:"rx_unstamped"`
	PSNRegressions uint64 `json:"psn_regressions"`
	NAKs           uint64 `json:"naks"`
	RNRs           uint64 `json:"rnrs"`
	CNPs           uint64 `json:"cnps"`
	CEs            uint64 `json:"ces"`
	Dropped        uint64 `json:"dropped"`

	Credit    uint32 `json:"credit"`
	CreditSeq uint16 `json:"credit_seq"`

	LastTxNs uint64 `json:"last_tx_ns"`
	LastRxNs uint64 `json:"last_rx_ns"`

	// Rate since the snapshot before; only where there is one (--watch).
	SendingBps   *uint64 `json:"sending_bps,omitempty"`
	ReceivingBps *uint64 `json:"receiving_bps,omitempty"`
}

// Policy is what the four-case policy keeps of a destination (S1.6).
type Policy struct {
	Case      uint8  `json:"case"` // 1-4, 0 = none of the four
	Row       *uint8 `json:"row"`  // row of the completed table, robust mode; null = none
	Action    string `json:"action"`
	RateBps   uint64 `json:"rate_bps"`
	Window    uint64 `json:"window_bytes"` // bytes that the engine may have in flight; 0 = no limit
	BaseTxNs  int64  `json:"base_tx_ns"`
	BaseRxNs  int64  `json:"base_rx_ns"`
	BaseRttNs int64  `json:"base_rtt_ns"`
	BaseValid bool   `json:"base_valid"`
	BaseIsRtt bool   `json:"base_is_rtt"` // the peer echoes nothing: the queueing delay is that of the RTT

	QueueingTxNs int64  `json:"queueing_tx_ns"`
	QueueingRxNs int64  `json:"queueing_rx_ns"`
	TrendTxNs    int64  `json:"trend_tx_ns"`
	TrendRxNs    int64  `json:"trend_rx_ns"`
	Decisions    uint32 `json:"decisions"`
	DecidedNs    uint64 `json:"decided_ns"`
	Decreases    uint32 `json:"decreases"`
	DecreasedNs  uint64 `json:"decreased_ns"`
	Increases    uint32 `json:"increases"`
}

// Window is what the data plane has gathered since the last evaluation.
type Window struct {
	TxNs    *int64 `json:"tx_ns"`
	RxNs    *int64 `json:"rx_ns"`
	RttNs   *int64 `json:"rtt_ns"`
	Samples uint32 `json:"samples"`
	CE      uint32 `json:"ce"`
	Loss    uint32 `json:"loss"`
	RNR     uint16 `json:"rnr"`
	Paced   uint32 `json:"paced"`
}

// DestinationOf reads a row of the table.
func DestinationOf(r loader.Row) Destination {
	d, p := &r.Regs, bpf.PolicyAs[fourcase.Regs](&r.Regs.Policy)
	return Destination{
		Node: d.Node, Address: r.Addr.String(), Stamps: d.Caps&bpf.CapStamp != 0, Capabilities: capabilities(d.Caps),
		TxNs: d.TxNs, RxNs: d.RxNs, InTxNs: d.InTxNs, TurnaroundNs: d.TurnaroundNs, RttNs: d.RttNs,
		Policy: Policy{
			Case: p.CaseNo, Row: row(p), Action: action(p), RateBps: p.RateBps, Window: p.WindowBytes,
			BaseTxNs: p.BaseTxNs, BaseRxNs: p.BaseRxNs, BaseRttNs: p.BaseRttNs,
			BaseValid: p.State&fourcase.StateBase != 0, BaseIsRtt: p.State&fourcase.StateRTT != 0,
			QueueingTxNs: p.QueueingTxNs, QueueingRxNs: p.QueueingRxNs, TrendTxNs: p.TrendTxNs, TrendRxNs: p.TrendRxNs,
			Decisions: p.Decisions, DecidedNs: p.DecidedNs, Decreases: p.Decreases, DecreasedNs: p.DecreasedNs, Increases: p.Increases,
		},
		Window: Window{
			TxNs: sample(d.WinTxNs), RxNs: sample(d.WinRxNs), RttNs: sample(d.WinRttNs),
			Samples: d.WinSamples, CE: d.WinCe, Loss: d.WinLoss, RNR: uint16(d.WinRnr), Paced: d.WinPaced,
		},
		RateBps: d.RateBps, Bound: loop.Bound(d.Bound).String(), StackBps: d.StackRateBps, EngineBps: d.EngineRateBps, NextTxNs: d.NextTxNs, PacedNs: d.PacedNs, Class: d.ClassId,
		TxPackets: d.TxPackets, TxBytes: d.TxBytes, TxUnstamped: d.TxUnstamped,
		Limit: limit(d), EnginePackets: d.EnginePackets, EngineBytes: d.EngineBytes,
		RxPackets: d.RxPackets, RxBytes: d.RxBytes, RxUnstamped: d.RxUnstamped,
		PSNRegressions: d.PsnRegressions, NAKs: d.Naks, RNRs: d.Rnrs, CNPs: d.Cnps, CEs: d.Ces, Dropped: d.Dropped,
		Credit: d.Credit, CreditSeq: d.CreditSeq,
		LastTxNs: d.LastTxNs, LastRxNs: d.LastRxNs,
	}
}

// limit is empty for a destination to which no engine has sent.
func limit(d *bpf.DestRegs) string {
	if d.EnginePackets == 0 {
		return ""
	}
	return qp.SendLimit(d.EngineLimit).String()
}

func sample(ns int64) *int64 {
	if ns == bpf.NoSample {
		return nil
	}
	return &ns
}

// action names the last decision; a destination without one has none.
func action(p *fourcase.Regs) string {
	if p.Action == fourcase.ActionNone {
		return ""
	}
	return p.Action.String()
}

func row(p *fourcase.Regs) *uint8 {
	if p.Action == fourcase.ActionNone || p.Row == fourcase.NoRow {
		return nil
	}
	return &p.Row
}

func capabilities(c uint16) []string {
	names := []string{}
	for _, x := range []struct {
		bit  uint16
		name string
	}{{bpf.CapStamp, "stamp"}, {bpf.CapSACK, "sack"}, {bpf.CapCredit, "credit"}, {bpf.CapOOO, "ooo"}, {bpf.CapStatic, "static"}} {
		if c&x.bit != 0 {
			names = append(names, x.name)
		}
	}
	return names
}

// Table is the destination table of one interface at one moment.
type Table struct {
	Interface    string        `json:"interface"`
	Time         time.Time     `json:"time"`
	Destinations []Destination `json:"destinations"`
}

// TableOf makes a table of the loader's rows. before, if not nil, is an earlier
// snapshot: the throughput since then is put in.
func TableOf(ifname string, rows []loader.Row, now time.Time, before *Table) *Table {
	t := &Table{Interface: ifname, Time: now, Destinations: make([]Destination, 0, len(rows))}
	old := map[string]*Destination{}
	var elapsed float64
	if before != nil {
		elapsed = now.Sub(before.Time).Seconds()
		for i := range before.Destinations {
			old[before.Destinations[i].Address] = &before.Destinations[i]
		}
	}
	for _, r := range rows {
		d := DestinationOf(r)
		if b := old[d.Address]; elapsed > 0 {
			if b == nil || b.TxPackets > d.TxPackets {
				b = &Destination{} // new since then
			}
			d.SendingBps = perSecond(d.TxBytes, b.TxBytes, elapsed)
			d.ReceivingBps = perSecond(d.RxBytes, b.RxBytes, elapsed)
		}
		t.Destinations = append(t.Destinations, d)
	}
	return t
}

func perSecond(now, before uint64, elapsed float64) *uint64 {
	bps := uint64(float64(now-min(before, now)) * 8 / elapsed)
	return &bps
}

// WriteTable prints the table of an interface or of a card.
func WriteTable(w io.Writer, t *Table) {
	if len(t.Destinations) == 0 {
		fmt.Fprintf(w, "%s: no destination yet; one appears with the first RoCEv2 packet sent to it\n", t.Interface)
		return
	}
	for _, l := range cli.Align(t.Cells()) {
		fmt.Fprintln(w, l)
	}
}
