// SPDX-License-Identifier: Apache-2.0

package card

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
	"github.com/softroce/softroce-xdp/internal/texts"
)

func newRegs(a *app) *cobra.Command {
	var asJSON, all bool
	element := anyElement
	cmd := &cobra.Command{
		Use:   "regs DEV [BLOCK]",
		Short: "Show the registers of a card",
		Long: `Regs shows the blocks of registers, or the registers of one block with the values of their
fields. Of arrays it shows the elements that differ from their reset values, unless
--element or --all says otherwise. Reading changes nothing. A command (WO) reads 0.
docs/card/card-registers.md has the meaning of all registers.`,
		Example:           "  softroce-card regs 0000:03:00.0\n  softroce-card regs 0000:03:00.0 dest --element 3",
		Args:              cli.Takes(1, 2),
		ValidArgsFunction: a.completeCards,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseCard(args[0])
			if err != nil {
				return err
			}
			var block *layout.Block
			if len(args) > 1 {
				if block, err = findBlock(args[1]); err != nil {
					return err
				}
				if element != anyElement && uint64(element) >= block.Count {
					return cli.Usagef("block %s has no element %d: the last is %d", block.Name, element, block.Count-1)
				}
			}
			return a.withCard(&id, func(c *hwoffload.Card) error {
				if block == nil {
					return showBlocks(cmd.OutOrStdout(), id.name, c, asJSON)
				}
				cells, err := readBlock(c, block, element, all)
				if err != nil {
					return err
				}
				if asJSON {
					return cli.WriteJSON(cmd.OutOrStdout(), map[string]any{"interface": id.name, "block": block.Name, "registers": cells})
				}
				writeCells(cmd.OutOrStdout(), cells)
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&all, "all", false, "all elements of arrays")
	f.Var(cli.CountVar(&element, 0, anyElement-1), "element", "only this element of the block")
	f.Lookup("element").DefValue = ""
	return cmd
}

// anyElement stands for all elements of a block.
const anyElement = ^uint32(0)

func blockNamed(name string) *layout.Block {
	for i := range regs.Blocks {
		if regs.Blocks[i].Name == name {
			return &regs.Blocks[i]
		}
	}
	return nil
}

func findBlock(name string) (*layout.Block, error) {
	if b := blockNamed(name); b != nil {
		return b, nil
	}
	var names []string
	for i := range regs.Blocks {
		names = append(names, regs.Blocks[i].Name)
	}
	if near := texts.Nearest(name, names); near != "" {
		return nil, cli.Usagef("no block %q: did you mean %s?", name, near)
	}
	return nil, cli.Usagef("no block %q: choose %s", name, strings.Join(names, ", "))
}

// blockLine is a block of the card in JSON.
type blockLine struct {
	Name    string `json:"block"` // "" = this program does not know it
	Type    uint32 `json:"type"`
	Version uint32 `json:"version"`
	Base    string `json:"address"`
	Stride  uint64 `json:"stride"`
	Count   uint64 `json:"elements"`
	Text    string `json:"text"`
}

// showBlocks prints the card's list of blocks.
func showBlocks(w io.Writer, name string, c *hwoffload.Card, asJSON bool) error {
	var list []blockLine
	lines := [][]string{{"BLOCK", "TYPE", "VERSION", "ADDRESS", "ELEMENTS", "MEANING"}}
	for _, b := range c.Blocks {
		x := blockLine{Type: b.Type, Version: b.Version, Base: fmt.Sprintf("%#x", b.Base), Stride: b.Stride, Count: b.Count}
		for i := range regs.Blocks {
			if uint64(b.Type) == regs.Blocks[i].Type {
				x.Name, x.Text = regs.Blocks[i].Name, regs.Blocks[i].Text
			}
		}
		list = append(list, x)
		first, _, _ := strings.Cut(x.Text, ". ")
		lines = append(lines, []string{orDash(x.Name), fmt.Sprint(x.Type), fmt.Sprint(x.Version), x.Base, fmt.Sprint(x.Count), orDash(strings.TrimSuffix(first, "."))})
	}
	if asJSON {
		return cli.WriteJSON(w, map[string]any{"interface": name, "blocks": list})
	}
	for _, l := range cli.Align(lines) {
		fmt.Fprintln(w, l)
	}
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// cell is a register of one element, with its value.
type cell struct {
	Element  uint64  `json:"element"`
	Register string  `json:"register"`
	Index    uint64  `json:"index"` // index in a register that is an array
	Address  string  `json:"address"`
	Value    string  `json:"value"` // hexadecimal
	Fields   []value `json:"fields"`

	name string // name for people
}

// value is a field of a register.
type value struct {
	Name   string `json:"name"`
	Value  string `json:"value"` // decimal
	Access string `json:"access"`
	Unit   string `json:"unit,omitempty"`
}

// readBlock reads the registers of an element, or of all elements. Of arrays it leaves out what
// has its reset value, unless all or one element is wanted.
func readBlock(c *hwoffload.Card, b *layout.Block, element uint32, all bool) ([]cell, error) {
	cells := []cell{}
	words := make([]uint64, b.Stride/8)
	for i := range b.Count {
		if element != anyElement && i != uint64(element) {
			continue
		}
		// A read of 64 bits is one of two registers of 32 bits each.
		hwoffload.ReadWords(c.Device, b.Base+i*b.Stride, words)
		if err := c.Err(); err != nil {
			return nil, err
		}
		for j := range b.Registers {
			r := &b.Registers[j]
			for k := range r.Count {
				at := r.Offset + k*r.Stride
				v := words[at/8]
				if r.Bits == 32 {
					v = v >> (at % 8 * 8) & 0xffffffff
				}
				array := r.Count > 1 || b.Count > 1 && element == anyElement
				if !array || all || v != r.Reset(k) {
					cells = append(cells, cellOf(b, r, i, k, v))
				}
			}
		}
	}
	return cells, nil
}

func cellOf(b *layout.Block, r *layout.Register, i, k, v uint64) cell {
	x := cell{Element: i, Register: r.Name, Index: k, Address: fmt.Sprintf("%#x", b.Address(i, r, k)), Value: fmt.Sprintf("%#x", v), name: b.Name}
	if b.Count > 1 {
		x.name += fmt.Sprintf("[%d]", i)
	}
	x.name += "." + r.Name
	if r.Count > 1 {
		x.name += fmt.Sprintf("[%d]", k)
	}
	for f := range r.Fields {
		field := &r.Fields[f]
		n := v & field.Mask() >> field.LSB
		text := fmt.Sprint(n)
		if field.Signed {
			text = fmt.Sprint(int64(n<<(64-field.Bits)) >> (64 - field.Bits))
		}
		x.Fields = append(x.Fields, value{field.Name, text, field.Access.String(), field.Unit})
	}
	return x
}

// writeCells prints registers for people: a register with one field of its name on one line,
// the fields of others below it.
func writeCells(w io.Writer, cells []cell) {
	if len(cells) == 0 {
		fmt.Fprintln(w, "all registers have their reset values (--all shows them)")
		return
	}
	lines := [][]string{{"REGISTER", "ADDRESS", "VALUE", "FIELD", "ACCESS"}}
	for _, x := range cells {
		at := []string{x.name, x.Address, x.Value}
		for _, f := range x.Fields {
			n := f.Value
			if f.Unit != "" && f.Unit != "address" {
				n += " " + f.Unit
			}
			if len(x.Fields) > 1 || f.Name != x.Register {
				n = f.Name + " " + n
			}
			lines = append(lines, append(at, n, f.Access))
			at = []string{"", "", ""}
		}
	}
	for _, l := range cli.Align(lines) {
		fmt.Fprintln(w, l)
	}
}
