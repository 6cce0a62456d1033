// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
)

// A Column of the destination table as people see it.
type Column struct {
	Head string
	Sort string // name for --sort
	Text string // description for the manual
	Live bool   // shown only where there is an earlier snapshot

	Priority bool // shown only where the node file gives priorities

	cell    func(*Destination) string
	compare func(a, b *Destination) int // order of --sort: the lower one comes first
}

// Columns of the table, from left to right.
var Columns = slices.Concat(whereTo, priorityColumns, howMuch)

var whereTo = []Column{
	{Head: "NODE", Sort: "node", Text: "node number: from the node file, or by order of first contact",
		cell: func(d *Destination) string { return dashUnless(d.Node != 0, strconv.Itoa(int(d.Node))) },
		// Nodes without a number come last.
		compare: func(a, b *Destination) int { return cmp.Compare(a.Node-1, b.Node-1) }},
	{Head: "ADDRESS", Sort: "address", Text: "the destination's IP address",
		cell: func(d *Destination) string { return d.Address }, compare: byAddress},
	{Head: "STAMPS", Sort: "stamps", Text: "whether the peer understands the stamp option; without it only the RTT is measured",
		cell:    func(d *Destination) string { return map[bool]string{true: "yes", false: "no"}[d.Stamps] },
		compare: func(a, b *Destination) int { return cmp.Compare(yes(b.Stamps), yes(a.Stamps)) }},
	timeColumn("TX", "tx", "transmit time of this host's data to the peer (T2-T1); contains the offset of the two clocks", func(d *Destination) int64 { return d.TxNs }),
	timeColumn("RX", "rx", "receive time of the peer's feedback (T3-T2), with the receiver turnaround", func(d *Destination) int64 { return d.RxNs }),
	timeColumn("IN_TX", "in-tx", "transmit time of the peer's data to this host", func(d *Destination) int64 { return d.InTxNs }),
	queueingColumn("Q_TX", "q-tx", "queueing delay of the forward path: growth of the transmit time over the base delay", func(d *Destination) int64 { return d.Policy.QueueingTxNs }),
	queueingColumn("Q_RX", "q-rx", "queueing delay of the reverse path: growth of the receive time over the base delay", func(d *Destination) int64 { return d.Policy.QueueingRxNs }),
	{Head: "CASE", Sort: "case", Text: "case of the last decision (1-4, S1.6); - for none of the four",
		cell: func(d *Destination) string {
			return dashUnless(d.Policy.Case != 0, strconv.Itoa(int(d.Policy.Case)))
		},
		compare: func(a, b *Destination) int { return cmp.Compare(a.Policy.Case-1, b.Policy.Case-1) }},
	{Head: "ACTION", Sort: "action", Text: "what the last decision did to the rate",
		cell:    func(d *Destination) string { return dashUnless(d.Policy.Action != "", d.Policy.Action) },
		compare: func(a, b *Destination) int { return cmp.Compare(a.Policy.Action, b.Policy.Action) }},
}

var howMuch = []Column{
	{Head: "RATE", Sort: "rate", Text: "rate of the destination, in bits per second; - for unpaced",
		cell:    func(d *Destination) string { return dashUnless(d.RateBps != 0, cli.Rate(d.RateBps)) },
		compare: func(a, b *Destination) int { return cmp.Compare(b.RateBps, a.RateBps) }},
	{Head: "BOUND", Sort: "bound", Text: "what sets the rate (docs/study/four-case.md): policy, priority, floor, share or receiver; - before the first decision",
		cell:    func(d *Destination) string { return dashUnless(d.Bound != "", d.Bound) },
		compare: func(a, b *Destination) int { return cmp.Compare(a.Bound, b.Bound) }},
	{Head: "SENDING", Sort: "sending", Live: true, Text: "bits per second sent since the last refresh",
		cell:    func(d *Destination) string { return live(d.SendingBps) },
		compare: func(a, b *Destination) int { return cmp.Compare(deref(b.SendingBps), deref(a.SendingBps)) }},
	{Head: "RECEIVING", Sort: "receiving", Live: true, Text: "bits per second received since the last refresh",
		cell:    func(d *Destination) string { return live(d.ReceivingBps) },
		compare: func(a, b *Destination) int { return cmp.Compare(deref(b.ReceivingBps), deref(a.ReceivingBps)) }},
	{Head: "LIMIT", Sort: "limit", Live: true, Text: "what kept the engine's queue pairs from sending (docs/change/transport.md); - without an engine",
		cell:    func(d *Destination) string { return dashUnless(d.Limit != "", d.Limit) },
		compare: func(a, b *Destination) int { return cmp.Compare(a.Limit, b.Limit) }},
	counter("TX_PKTS", "tx-packets", "packets sent", func(d *Destination) uint64 { return d.TxPackets }),
	counter("TX_BYTES", "tx-bytes", "bytes of IP sent, without the option", func(d *Destination) uint64 { return d.TxBytes }),
	counter("RX_PKTS", "rx-packets", "packets received", func(d *Destination) uint64 { return d.RxPackets }),
	counter("RX_BYTES", "rx-bytes", "bytes of IP received, without the option", func(d *Destination) uint64 { return d.RxBytes }),
	counter("RETX", "retransmits", "times that a flow's PSN went back: retransmissions", func(d *Destination) uint64 { return d.PSNRegressions }),
	counter("CE", "ce", "packets received with the CE mark, and CNPs", func(d *Destination) uint64 { return d.CEs + d.CNPs }),
	counter("NAK", "nak", "NAKs received", func(d *Destination) uint64 { return d.NAKs }),
	counter("RNR", "rnr", "RNR NAKs received (receiver not ready)", func(d *Destination) uint64 { return d.RNRs }),
}

func timeColumn(head, sort, text string, field func(*Destination) int64) Column {
	return Column{Head: head, Sort: sort, Text: text,
		cell:    func(d *Destination) string { return dashUnless(field(d) != 0, cli.Nanos(field(d))) },
		compare: func(a, b *Destination) int { return cmp.Compare(field(b), field(a)) }}
}

func queueingColumn(head, sort, text string, field func(*Destination) int64) Column {
	c := timeColumn(head, sort, text, field)
	c.cell = func(d *Destination) string { return dashUnless(d.Policy.BaseValid, cli.Nanos(field(d))) }
	return c
}

func counter(head, sort, text string, field func(*Destination) uint64) Column {
	return Column{Head: head, Sort: sort, Text: text,
		cell:    func(d *Destination) string { return cli.Count(field(d)) },
		compare: func(a, b *Destination) int { return cmp.Compare(field(b), field(a)) }}
}

func byAddress(a, b *Destination) int {
	x, _ := netip.ParseAddr(a.Address)
	y, _ := netip.ParseAddr(b.Address)
	return x.Compare(y)
}

func yes(b bool) int {
	if b {
		return 1
	}
	return 0
}

func deref(p *uint64) uint64 {
	if p == nil {
		return 0
	}
	return *p
}

func live(p *uint64) string {
	if p == nil {
		return "-"
	}
	return cli.Rate(*p)
}

func dashUnless(ok bool, s string) string {
	if ok {
		return s
	}
	return "-"
}

// SortKeys are the names that Sort takes.
func SortKeys() []string {
	var keys []string
	for _, c := range Columns {
		keys = append(keys, c.Sort)
	}
	return keys
}

// Sort orders the table by a column: numbers from the largest down, node numbers
// and addresses upwards. Equals stay in the order of their addresses.
func (t *Table) Sort(key string) error {
	i := slices.IndexFunc(Columns, func(c Column) bool { return c.Sort == key })
	if i < 0 {
		return fmt.Errorf("no column %q to sort by: choose %s", key, strings.Join(SortKeys(), ", "))
	}
	slices.SortStableFunc(t.Destinations, func(a, b Destination) int {
		return cmp.Or(Columns[i].compare(&a, &b), byAddress(&a, &b))
	})
	return nil
}

// Cells returns the head and the lines of the table, unpadded.
func (t *Table) Cells() [][]string {
	shown := slices.DeleteFunc(slices.Clone(Columns), func(c Column) bool { return c.Live && !t.live() || c.Priority && !t.prioritized() })
	head := make([]string, len(shown))
	for i, c := range shown {
		head[i] = c.Head
	}
	lines := [][]string{head}
	for i := range t.Destinations {
		line := make([]string, len(shown))
		for j, c := range shown {
			line[j] = c.cell(&t.Destinations[i])
		}
		lines = append(lines, line)
	}
	return lines
}

func (t *Table) live() bool {
	return slices.ContainsFunc(t.Destinations, func(d Destination) bool { return d.SendingBps != nil })
}
