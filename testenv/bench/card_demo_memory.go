// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
)

// showMemory writes and reads card memory by the commands, across a border of windows (S2.5).
func showMemory(ctx context.Context, p *cardProduct) (err error) {
	step("Memory of a card (its model): 16 GB through 64 windows of 256 MB.")
	l, err := net.Listen("unix", filepath.Join(p.dir, "memory.sock"))
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- hwoffload.Serve(l, card.New()) }()
	defer func() { err = errors.Join(err, l.Close(), <-served) }()

	addr := "unix:" + l.Addr().String()
	for _, place := range []struct{ addr, text string }{
		{"0x0fffffff8", "across the border of two windows"},
		{"0x3fffffff9", "the end"}, // the last 7 bytes
	} {
		text := []byte(place.text)
		write := p.command(ctx, "ddr", "write", addr, place.addr)
		write.Stdin = bytes.NewReader(text)
		fmt.Printf("# printf %q | softroce-card ddr write %s %s\n", text, addr, place.addr)
		if out, err := write.CombinedOutput(); err != nil {
			return fmt.Errorf("softroce-card ddr write: %w: %s", err, out)
		}
		fmt.Printf("# softroce-card ddr read %s %s %d\n", addr, place.addr, len(text))
		got, err := p.command(ctx, "ddr", "read", addr, place.addr, fmt.Sprint(len(text))).Output()
		if err != nil {
			return fmt.Errorf("softroce-card ddr read: %w", err)
		}
		fmt.Printf("  %s\n", got)
		if !bytes.Equal(got, text) {
			return fmt.Errorf("softroce-card ddr read: %q, want %q", got, text)
		}
	}
	return nil
}
