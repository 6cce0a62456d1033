// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/softroce/softroce-xdp/internal/texts"
)

// Output has the flags of commands that show something, and prints by them.
type Output struct {
	JSON     bool
	Watch    bool
	interval time.Duration
	count    uint32
}

// Flags adds the flags.
func (o *Output) Flags(cmd *cobra.Command) {
	o.interval = time.Second
	f := cmd.Flags()
	f.BoolVar(&o.JSON, "json", false, "print JSON; with --watch one line each time")
	f.BoolVarP(&o.Watch, "watch", "w", false, "show it again and again, until interrupted")
	f.Var(SpanVar(&o.interval, 10*time.Millisecond, time.Hour), "interval", "time between two refreshes of --watch")
	f.Var(CountVar(&o.count, 0, 1<<30), "count", "end --watch after so many refreshes, 0 for never")
}

// WriteJSON prints a value over several lines.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Show calls snapshot once, or with --watch repeatedly, and prints the result: data as JSON, or
// human.
func (o *Output) Show(cmd *cobra.Command, snapshot func() (data any, human func(io.Writer), err error)) error {
	w := cmd.OutOrStdout()
	ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	for n := uint32(1); ; n++ {
		data, human, err := snapshot()
		if err != nil {
			return err
		}
		switch {
		case o.JSON && o.Watch:
			err = json.NewEncoder(w).Encode(data)
		case o.JSON:
			err = WriteJSON(w, data)
		default:
			var b bytes.Buffer
			human(&b)
			err = o.draw(w, b.Bytes(), n)
		}
		if err != nil || !o.Watch || n == o.count {
			return err
		}
		if !sleep(ctx, o.interval) {
			return nil
		}
	}
}

// draw prints the n-th picture. With --watch on a terminal it overwrites the previous one.
func (o *Output) draw(w io.Writer, picture []byte, n uint32) (err error) {
	switch {
	case o.Watch && IsTerminal(w):
		const home, restOfLine, restOfScreen = "\x1b[H", "\x1b[K\n", "\x1b[J"
		var safe bytes.Buffer
		_, _ = texts.PrintableWriter{W: &safe}.Write(picture) // a buffer has no errors
		picture = safe.Bytes()
		_, err = fmt.Fprintf(RawOf(w), "%s%s%s", home, bytes.ReplaceAll(picture, []byte("\n"), []byte(restOfLine)), restOfScreen)
	case n > 1:
		_, err = fmt.Fprintf(w, "\n%s", picture)
	default:
		_, err = w.Write(picture)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// IsTerminal reports whether a file, or an output of this program, is a terminal.
func IsTerminal(w any) bool {
	switch o := w.(type) {
	case *checkedOutput:
		w = o.Writer
	case checkedErrors:
		w = o.W
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	return term.IsTerminal(int(f.Fd()))
}
