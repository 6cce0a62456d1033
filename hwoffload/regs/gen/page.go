// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
	"github.com/softroce/softroce-xdp/internal/texts"
)

const pageHead = `# Registers of the card

This page is generated from ` + "`hwoffload/regs/*.yaml`" + ` by ` + "`go generate ./hwoffload/...`" + `.
Change the definition, not the page.

The card is an FPGA with four ports and memory of its own (S2.1).
There is no card yet: the registers have a model in memory (` + "`hwoffload/card`" + `), and a driver in Go (` + "`hwoffload`" + `) that
accesses the model, a PCI BAR, or a [socket](#socket).
The access to a BAR is tested on PCI devices of a virtual machine (` + "`testenv/e2e`" + `): one with a file as its memory, and
one that logs each access.
Neither reacts to accesses as a card does.
The model has registers and memory, and updates the destination table by the packets of its ports.
It executes the work requests of queue pairs ([card.md](card.md)).
Registers, destination table, the literal policy, regions and block task exist as RTL too ([card-rtl.md](card-rtl.md)).
` + "`hwoffload/vectors`" + ` has streams of events after each of which the tables of model, RTL and data plane have the same bits.

## Rules

- Addresses are in bytes, relative to the BAR.
  Registers are little-endian and have 32 or 64 bits.
- An access has 32 or 64 bits and is aligned to its width.
  A register of 64 bits may be accessed as two of 32 bits, the low half first.
- A block is an array of elements, which lie ` + "`stride`" + ` bytes apart.
  A register may be an array inside an element.
- Reserved bits and addresses read 0, and writes do not change them.
- A driver reads ` + "`magic`" + ` and ` + "`version`" + ` of block ` + "`ident`" + ` first, and refuses a major version that it does not know.
  It finds all other blocks by the list that begins at ` + "`list_start`" + `.
- Writes may be posted: a write has arrived when a later read of the card returns.

| access | meaning |
|---|---|
| RO | read only: writes are ignored |
| RW | reads return the last value written |
| WO | write only, a command: reads return 0 |
| RW1C | the card sets bits; writing 1 clears a bit, writing 0 keeps it |

## Memory

The CPU reaches the memory of the card (S2.1) in two ways, which the driver offers with the same methods:

| | window (` + "`hwoffload.DDR`" + `) | DMA (` + "`hwoffload.DMA`" + `) |
|---|---|---|
| registers of block ddr | ` + "`window`" + ` | ` + "`dma_...`" + `, one queue for each bank |
| copies | the CPU, 8 bytes at a time | the card, through a buffer of the host |
| banks | one window, and one lock, for all | all at the same time; a bank that does not answer delays no other |

` + "`hwoffload.Allocator`" + ` divides the memory.
An allocation is interleaved over the banks in stripes of 64 KB, or lies in one bank.
` + "`Card.Memory`" + ` gives an application memory of the card, as an extension of that of the host: it reads and writes at
offsets, and frees the memory.
It is not mapped into the application, as other users of the card switch the window.
It is not cleared: it has what its last user left.

A DMA needs memory of the host at a bus address that the card reaches (VFIO, or a kernel driver).
The driver takes such a buffer from its caller and makes none.
Only the model executes DMA so far.

## Socket

` + "`hwoffload.Dial`" + ` accesses a card through a unix stream socket, for example ` + "`unix:/run/card.sock`" + `.
The server is a simulator, or a process that serves a model with ` + "`hwoffload.Serve`" + `.
One client at a time uses a card; a second one is refused after a second.
Numbers are little-endian, and lengths are in bytes.

| message | bytes |
|---|---|
| client's first | "SRCS", version of the protocol = 1 (8 bits), 0 (24) |
| server's first | "SRCS", version = 1 (8), status (8), 0 (16), length of the address space (64) |
| request | operation (8), 0 (8), length of the body (16), body |
| answer | operation (8), status (8), length of the body (16), body |

The first status is 0; 1 if the server has another version, and 2 if another client uses the card.

| operation | request | body | answer |
|---|---|---|---|
| 1 | read of 32 bits | address (64) | value (64) |
| 2 | read of 64 bits | address (64) | value (64) |
| 3 | write of 32 bits | address (64), value (64) | none |
| 4 | write of 64 bits | address (64), value (64) | none |
| 64 and above | of simulators only: [card-rtl.md](card-rtl.md) | | |

Requests are executed in their order, and reads are answered in it.
An answer whose status is not 0 has the text of an error as its body, and the server ends the connection after it.
A client that ends its side of the connection finds all of its writes executed when the server ends the other side.
The driver gives up if an answer does not arrive within the time that the caller of ` + "`Dial`" + ` chose.

## Address space

| address | block | type | version | elements | bytes each |
|---|---|---|---|---|---|
`

// page writes the reference page.
func page(blocks []layout.Block, records []layout.Record) []byte {
	var w bytes.Buffer
	fmt.Fprint(&w, pageHead)
	for _, b := range blocks {
		fmt.Fprintf(&w, "| `0x%08x` | [%s](#%s) | %d | %d | %d | %d |\n", b.Base, b.Name, b.Name, b.Type, b.Version, b.Count, b.Stride)
	}
	fmt.Fprintf(&w, "| `0x%08x` | window of the DDR, 256 MB (S2.5) | | | | |\n", registerSpace)
	for i := range blocks {
		b := &blocks[i]
		fmt.Fprintf(&w, "\n## %s\n\n%s\n\n", b.Name, strings.ReplaceAll(b.Text, ". ", ".\n"))
		fmt.Fprintf(&w, "| offset | register | field | bits | access | reset | unit | meaning |\n|---|---|---|---|---|---|---|---|\n")
		for j := range b.Registers {
			pageRegister(&w, &b.Registers[j])
		}
	}
	pageRecords(&w, records)
	return []byte(texts.FitMarkdown(w.String()))
}

func pageRegister(w *bytes.Buffer, r *layout.Register) {
	name := "`" + r.Name + "`"
	if r.Count > 1 {
		name += fmt.Sprintf(", %d elements, stride %d", r.Count, r.Stride)
	}
	if !r.Single() && r.Text != "" {
		name += ": " + r.Text
	}
	offset := fmt.Sprintf("`0x%04x`", r.Offset)
	for i := range r.Fields {
		f := &r.Fields[i]
		field, reset := "", fmt.Sprintf("%#x", f.Reset)
		if !r.Single() {
			field = "`" + f.Name + "`"
		}
		switch {
		case len(r.Resets) > 0:
			reset = "list"
		case f.Reset < 10:
			reset = fmt.Sprint(f.Reset)
		}
		if r.Count == 1 && len(r.Resets) == 1 {
			reset = fmt.Sprintf("%#x", r.Resets[0])
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", offset, name, field, bitRange(f), f.Access, reset, f.Unit, f.Text)
		offset, name = "", ""
	}
}

func bitRange(f *layout.Field) string {
	if f.Bits == 1 {
		return fmt.Sprint(f.LSB)
	}
	return fmt.Sprintf("%d:%d", f.LSB+f.Bits-1, f.LSB)
}
