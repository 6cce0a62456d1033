// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"io"
)

// The port carries two lines before the first call. Between them the agent waits, no call has left a trace
// on either side, and the state of the machine can be saved. A machine that is restored from that
// state has sent its line already.
const (
	ready = "ready\n"
	begin = "begin\n"
)

// Announce sends the agent's line and returns when the host's has come.
func Announce(port io.ReadWriter) error {
	if _, err := io.WriteString(port, ready); err != nil {
		return err
	}
	return expect(port, begin)
}

// AwaitReady returns when the agent's line has come.
func AwaitReady(port io.Reader) error { return expect(port, ready) }

// Begin sends the host's line.
func Begin(port io.Writer) error {
	_, err := io.WriteString(port, begin)
	return err
}

// expect reads a line, and nothing behind it.
func expect(port io.Reader, line string) error {
	got := make([]byte, len(line))
	if _, err := io.ReadFull(port, got); err != nil {
		return fmt.Errorf("no line %q: %w", line, err)
	}
	if string(got) != line {
		return fmt.Errorf("got %q, want the line %q", got, line)
	}
	return nil
}
