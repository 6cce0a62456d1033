// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
)

// Precredit is the pre-credit of a card (S5). Bytes are payload.
type Precredit struct {
	Interface string `json:"interface"`
	Active    bool   `json:"active"`

	BudgetBytes      uint32 `json:"budget_bytes"` // budget of all senders together
	ShareBytes       uint32 `json:"share_bytes"`  // most of one sender
	FreeBytes        uint32 `json:"free_bytes"`   // part of the budget that is no sender's share
	OutstandingBytes uint32 `json:"outstanding_bytes"`
	LinkBps          uint64 `json:"link_bps"`
	RttNs            uint64 `json:"rtt_ns"`
	BdpBytes         uint32 `json:"bdp_bytes"`

	Senders  []Sender          `json:"senders"` // S5.2, in this order
	Counters map[string]uint64 `json:"counters"`
}

// Sender is an entry of the list of S5.2.
type Sender struct {
	Node             uint32 `json:"node"`
	Address          string `json:"address"` // "" = the card has no address of this node
	ShareBytes       uint32 `json:"share_bytes"`
	OutstandingBytes uint32 `json:"outstanding_bytes"`
}

// Write prints it for people.
func (p *Precredit) Write(w io.Writer) {
	if !p.Active {
		fmt.Fprintf(w, "%s: pre-credit is off; `softroce-card precredit enable` turns it on\n", p.Interface)
		return
	}
	fmt.Fprintf(w, "%s: %d senders, budget %d bytes, %d free, %d outstanding\n", p.Interface, len(p.Senders), p.BudgetBytes, p.FreeBytes, p.OutstandingBytes)
	if len(p.Senders) == 0 {
		return
	}
	lines := [][]string{{"NODE", "ADDRESS", "SHARE", "OUTSTANDING"}}
	for _, s := range p.Senders {
		lines = append(lines, []string{fmt.Sprint(s.Node), s.Address, fmt.Sprint(s.ShareBytes), fmt.Sprint(s.OutstandingBytes)})
	}
	for _, l := range cli.Align(lines) {
		fmt.Fprintln(w, l)
	}
}
