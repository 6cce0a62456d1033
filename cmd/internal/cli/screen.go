// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// ErrNoTerminal: standard input or output is no terminal.
var ErrNoTerminal = errors.New("no terminal")

const (
	enter = "\x1b[?1049h\x1b[?25l" // the other screen, no cursor
	leave = "\x1b[?25h\x1b[?1049l"
	home  = "\x1b[H"
	// Raw mode wants a carriage return, and what the picture before left goes away.
	newLine      = "\x1b[K\r\n"
	restOfScreen = "\x1b[K\x1b[J"
)

// Screen is a view that Run shows.
type Screen interface {
	// Refresh takes a snapshot. One that takes long comes by Answers: a function that shows it. nil: none does.
	Refresh() error
	Answers() <-chan func() error
	Key(k Key) (quit bool)    // handles a key
	View() string             // draws
	Resize(width, height int) // takes the size of the terminal
}

// RunScreen shows a view until the user quits, ctx ends or a snapshot fails.
func RunScreen(ctx context.Context, m Screen, interval time.Duration, in, out *os.File) error {
	if !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return ErrNoTerminal
	}
	if err := m.Refresh(); err != nil {
		return err
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	defer term.Restore(int(in.Fd()), before)
	fmt.Fprint(out, enter)
	defer fmt.Fprint(out, leave)

	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	defer signal.Stop(resized)
	keys := readKeys(in)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	fit(m, out)
	for {
		if _, err := fmt.Fprint(out, home, strings.ReplaceAll(m.View(), "\n", newLine), restOfScreen); err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
			fit(m, out)
		case <-tick.C:
			if err := m.Refresh(); err != nil {
				return err
			}
		case show := <-m.Answers():
			if err := show(); err != nil {
				return err
			}
		case k, ok := <-keys:
			if !ok || m.Key(k) {
				return nil
			}
		}
	}
}

func fit(m Screen, out *os.File) {
	if w, h, err := term.GetSize(int(out.Fd())); err == nil && w > 0 && h > 0 {
		m.Resize(w, h)
	}
}

// readKeys reads until the terminal is gone. It cannot be stopped otherwise: the
// program ends with the view.
func readKeys(in *os.File) <-chan Key {
	keys := make(chan Key)
	go func() {
		defer close(keys)
		buf := make([]byte, 64)
		for {
			n, err := in.Read(buf)
			if err != nil {
				return
			}
			for _, k := range parseKeys(string(buf[:n])) {
				keys <- k
			}
		}
	}()
	return keys
}
