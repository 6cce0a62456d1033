// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// MaxNode is the largest node number.
const MaxNode = regs.DestCount

// Node is a node of block nodes.
type Node struct {
	Number uint32 // 1 to MaxNode
	Addr   netip.Addr
	Port   uint32 // 0 to regs.PortsCount-1
}

// Table is the destination table of a card (S1.2), as the commands and the agent's policy loop use
// it. Methods are for one goroutine. Each returns the first failure of the card, if it has had one.
//
// Entries are numbered: element i of the table belongs to node i + 1, whose address is in block
// nodes. A card has several ports, and destinations behind different ports share no link, so
// the policy loop works on the part of the table that belongs to a TablePort.
type Table struct {
	card    *hwoffload.Card
	self    uint32
	nodes   map[int]Node                                   // nodes by element
	behind  [regs.PortsCount][regs.CallsActiveCount]uint32 // elements of the nodes behind each port but this one, as in register active
	element map[bpf.DestKey]int
}

// NewTable returns the table of a card with the nodes that block nodes has now.
func NewTable(c *hwoffload.Card) (*Table, error) {
	t := &Table{card: c}
	return t, t.Refresh()
}

// err returns the failure of the card. One that reads all ones everywhere was removed from its
// slot, or is in reset.
func (t *Table) err() error {
	if err := t.card.Err(); err != nil {
		return fmt.Errorf("the card does not answer: %w", err)
	}
	if magic := regs.IdentOf(t.card).Magic(); magic != regs.IdentMagicReset {
		if err := t.card.Err(); err != nil {
			return fmt.Errorf("the card does not answer: %w", err)
		}
		return fmt.Errorf("the card does not answer: it reads %#x at address 0, before it was %#x", magic, regs.IdentMagicReset)
	}
	return nil
}

// Refresh reads block nodes again. It is needed after another process has changed it.
func (t *Table) Refresh() error {
	self := regs.NodesOf(t.card).Self()
	nodes, element := map[int]Node{}, map[bpf.DestKey]int{}
	for i := range MaxNode {
		if n, ok := t.readNode(i); ok {
			nodes[i], element[bpf.KeyOf(n.Addr)] = n, i
		}
	}
	if err := t.err(); err != nil {
		return err
	}
	clear(t.behind[:])
	for i, n := range nodes {
		if n.Number != self {
			t.behind[n.Port][i/32] |= 1 << (i % 32)
		}
	}
	t.self, t.nodes, t.element = self, nodes, element
	return nil
}

// readNode reads the node of an element. It returns false if there is none.
func (t *Table) readNode(i int) (Node, bool) {
	block := regs.NodesOf(t.card)
	n := block.Node(i)
	if !n.Valid() {
		return Node{}, false
	}
	return Node{Number: uint32(i + 1), Addr: regs.AddrOf(block.Addr(i), block.AddrLow(i)), Port: n.Port()}, true
}

// Self returns the number of this node, 0 = not numbered.
func (t *Table) Self() uint32 { return t.self }

// Nodes returns the nodes of the last Refresh in the order of their numbers, without this node.
func (t *Table) Nodes() []Node {
	var all []Node
	for i := range MaxNode {
		if n, ok := t.nodes[i]; ok && n.Number != t.self {
			all = append(all, n)
		}
	}
	return all
}

// CheckNodes returns an error if a card cannot have these nodes.
func CheckNodes(self uint32, list []Node) error {
	if self > MaxNode {
		return fmt.Errorf("node number %d of this node: a card has numbers up to %d", self, MaxNode)
	}
	of, number := map[netip.Addr]uint32{}, map[uint32]bool{}
	for _, n := range list {
		addr := n.Addr.Unmap()
		switch {
		case n.Number < 1 || n.Number > MaxNode:
			return fmt.Errorf("node number %d: a card has numbers from 1 to %d", n.Number, MaxNode)
		case number[n.Number]:
			return fmt.Errorf("node number %d is there twice: a node of a card has one address", n.Number)
		case n.Port >= regs.PortsCount:
			return fmt.Errorf("node %d is behind port %d: a card has ports 0 to %d", n.Number, n.Port, regs.PortsCount-1)
		case !addr.IsValid():
			return fmt.Errorf("node %d has no address", n.Number)
		case of[addr] != 0:
			return fmt.Errorf("nodes %d and %d have the same address %s", of[addr], n.Number, addr)
		}
		of[addr], number[n.Number] = n.Number, true
	}
	return nil
}

// SetNodes writes the number of this node and all nodes into block nodes. Nodes that are not in
// the list are removed. It writes nothing if CheckNodes refuses the list.
func (t *Table) SetNodes(self uint32, list []Node) error {
	if err := CheckNodes(self, list); err != nil {
		return err
	}
	want := map[int]Node{}
	for _, n := range list {
		n.Addr = n.Addr.Unmap()
		want[int(n.Number-1)] = n
	}
	block := regs.NodesOf(t.card)
	block.SetSelf(self)
	for i := range MaxNode {
		n, ok := want[i]
		if had := t.nodes[i]; ok && had == n {
			continue
		}
		if _, had := t.nodes[i]; had || ok {
			block.SetNode(i, 0) // the address changes while the node does not exist
		}
		if !ok {
			continue
		}
		high, low := regs.AddrWords(n.Addr)
		block.SetAddr(i, high)
		block.SetAddrLow(i, low)
		block.SetNode(i, regs.NodesNode(0).WithValid(true).WithPort(n.Port))
	}
	return t.Refresh()
}

// Row reads the entry of a node.
func (t *Table) Row(n Node) (bpf.Row, error) {
	r := bpf.Row{Addr: n.Addr}
	t.read(int(n.Number-1), &r.Regs)
	return r, t.card.Err()
}

// Rows reads the entries of all nodes but this one, in the order of their numbers. An entry that
// no agent has begun with has Node 0.
func (t *Table) Rows() ([]bpf.Row, error) {
	var rows []bpf.Row
	for _, n := range t.Nodes() {
		r, err := t.Row(n)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, t.err()
}

// read reads the registers of an element, each by itself.
func (t *Table) read(i int, d *bpf.DestRegs) {
	hwoffload.ReadWords(t.card.Device, regs.DestBase+uint64(i)*regs.DestStride, bpf.WordsOf(d))
}

// Params reads the parameters of the policy from block fourcase.
func (t *Table) Params() (p bpf.PolicyParams, err error) {
	hwoffload.ReadWords(t.card.Device, regs.FourcaseBase, bpf.WordsOf(&p))
	return p, t.err()
}

// SetParams writes the parameters of the policy to block fourcase.
func (t *Table) SetParams(p bpf.PolicyParams) error {
	for i, w := range bpf.WordsOf(&p) {
		if at := regs.FourcaseBase + uint64(i)*8; t.card.R64(at) != w {
			t.card.W64(at, w)
		}
	}
	return t.err() // reads, so the writes have arrived
}

// Now returns the time of the card's clock in ns.
func (t *Table) Now() (uint64, error) {
	now := regs.CallsOf(t.card).NowNs()
	return now, t.card.Err()
}
