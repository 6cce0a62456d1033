// SPDX-License-Identifier: Apache-2.0

package card

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/hwoffload"
)

func newDDR(a *app) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "ddr",
		Short: "Read and write the memory of a card",
		Long: `Ddr accesses the 16 GB of the card's memory through its window of 256 MB. Addresses are
bytes from its start: bits 32 and 33 are the bank.`,
	}, newDDRRead(a), newDDRWrite(a))
}

// ddrChunk is the length of one access to the memory.
const ddrChunk = 1 << 20

func newDDRRead(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "read DEV ADDRESS LENGTH",
		Short:   "Write memory of a card to standard output",
		Long:    `Read writes the bytes to standard output. The length may have a unit: 4K, 1M, 2G.`,
		Example: "  softroce-card ddr read 0000:03:00.0 0x100000000 64K > bank1",
		Args:    cli.Takes(3, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseCard(args[0])
			if err != nil {
				return err
			}
			addr, err := parseDDR(args[1])
			if err != nil {
				return err
			}
			length, err := parseLength(args[2])
			if err != nil {
				return err
			}
			if length > hwoffload.DDRBytes-addr {
				return cli.Usagef("%d bytes from %#x on: the memory ends at %#x", length, addr, uint64(hwoffload.DDRBytes))
			}
			w := cmd.OutOrStdout()
			if cli.IsTerminal(w) {
				return cli.Usagef("the terminal cannot show bytes: write them to a file with > FILE, or to a program as | xxd")
			}
			return a.withCard(&id, func(c *hwoffload.Card) error {
				from := io.NewSectionReader(c.DDR(), int64(addr), int64(length))
				n, err := io.CopyBuffer(struct{ io.Writer }{cli.RawOf(w)}, from, make([]byte, ddrChunk))
				if err == nil && uint64(n) != length {
					err = fmt.Errorf("only %d bytes were read", n)
				}
				return err
			})
		},
	}
}

func newDDRWrite(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "write DEV ADDRESS",
		Short:   "Write standard input to memory of a card",
		Long:    `Write copies standard input to the memory, until its end, and says how many bytes it had.`,
		Example: "  softroce-card ddr write 0000:03:00.0 0x100000000 < bank1",
		Args:    cli.Takes(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseCard(args[0])
			if err != nil {
				return err
			}
			addr, err := parseDDR(args[1])
			if err != nil {
				return err
			}
			in := cmd.InOrStdin()
			if cli.IsTerminal(in) {
				return cli.Usagef("standard input is the terminal: name a file with < FILE")
			}
			room := hwoffload.DDRBytes - addr
			if f, ok := in.(*os.File); ok { // of a file the length is known before anything is written
				if s, err := f.Stat(); err == nil && s.Mode().IsRegular() && uint64(s.Size()) > room {
					return cli.Usagef("%d bytes at %#x: the memory ends at %#x; nothing was written", s.Size(), addr, uint64(hwoffload.DDRBytes))
				}
			}
			return a.withCard(&id, func(c *hwoffload.Card) error {
				n, err := writeDDR(c.DDR(), addr, in)
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %d bytes at %#x\n", id.name, n, addr)
				}
				return err
			})
		},
	}
}

// writeDDR copies in to the memory, and returns the number of bytes.
func writeDDR(d *hwoffload.DDR, addr uint64, in io.Reader) (n uint64, err error) {
	buffer := make([]byte, ddrChunk)
	for {
		got, failed := io.ReadFull(in, buffer)
		if failed != nil && !errors.Is(failed, io.EOF) && !errors.Is(failed, io.ErrUnexpectedEOF) {
			return n, fmt.Errorf("standard input, after %d bytes: %w", n, failed)
		}
		if got > 0 {
			if _, err := d.WriteAt(buffer[:got], int64(addr+n)); err != nil {
				return n, fmt.Errorf("after %d bytes that were written: %w", n, err)
			}
			n += uint64(got)
		}
		if failed != nil {
			return n, nil
		}
	}
}

// parseDDR reads an address in the memory of a card.
func parseDDR(s string) (uint64, error) {
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0, cli.Usagef("%q is no address: write it as 0x100000000 or 4294967296", s)
	}
	if v >= hwoffload.DDRBytes {
		return 0, cli.Usagef("address %#x: the memory of a card has 16 GB, addresses up to %#x", v, uint64(hwoffload.DDRBytes-1))
	}
	return v, nil
}

// parseLength reads a number of bytes, decimal, hexadecimal, or with a unit.
func parseLength(s string) (uint64, error) {
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil && !strings.HasPrefix(s, "-") {
		v, err = cli.ParseBytes(s)
	}
	if err != nil || v == 0 {
		return 0, cli.Usagef("%q is no length: write bytes as 4096, 0x1000 or 4K", s)
	}
	return v, nil
}
