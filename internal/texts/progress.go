// SPDX-License-Identifier: Apache-2.0

package texts

// This file says how far long work is, for people who wait for it.

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// How often progress is written: on a terminal over the line before; elsewhere a line of
// its own, after a while, and not often.
const (
	redraw = 200 * time.Millisecond
	first  = 5 * time.Second
	then   = 10 * time.Second
)

const clearLine = "\r\x1b[K"

// ShowProgress writes what text returns and for how long the work has lasted, again and again,
// until the function that it returns is called. Work that is short is not mentioned
// unless w is a terminal.
func ShowProgress(w io.Writer, text func() string) (stop func()) {
	f, ok := w.(*os.File)
	return show(w, ok && term.IsTerminal(int(f.Fd())), text)
}

func show(w io.Writer, terminal bool, text func() string) (stop func()) {
	wait, next := first, then
	if terminal {
		wait, next = redraw, redraw
	}
	end := make(chan struct{})
	var running sync.WaitGroup
	begin := time.Now()
	running.Go(func() {
		t := time.NewTimer(wait)
		defer t.Stop()
		for {
			select {
			case <-end:
				if terminal {
					fmt.Fprint(w, clearLine)
				}
				return
			case <-t.C:
			}
			t.Reset(next)
			line := fmt.Sprintf("%6.1fs: %s", time.Since(begin).Seconds(), text())
			if terminal {
				fmt.Fprint(w, clearLine, line)
			} else {
				fmt.Fprintln(w, line)
			}
		}
	})
	return func() {
		close(end)
		running.Wait()
	}
}
