// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Before the first call the port carries lines. The agent sends "ready" and waits for a line of the host:
//
//	file SIZE MODE "PATH"   SIZE bytes follow; the agent stores them, and is ready again
//	clock                   the agent sends "clock NANOSECONDS" of a clock that is never set, and is ready again
//	begin                   calls follow
//
// Whenever the agent is ready, no call has left a trace on either side, and the state of the machine can be
// saved. A machine that is restored from that state has sent its line already.
const (
	ready      = "ready\n"
	begin      = "begin\n"
	fileFormat = "file %d %o %q\n"

	clock       = "clock\n"
	clockFormat = "clock %d\n"
)

// started is when the agent started.
var started = time.Now()

// Announce sends the agent's lines and stores the host's files, until the host begins.
func Announce(port io.ReadWriter) error {
	for {
		if _, err := io.WriteString(port, ready); err != nil {
			return err
		}
		line, err := readLine(port)
		if err != nil || line == begin {
			return err
		}
		if line == clock {
			_, err = fmt.Fprintf(port, clockFormat, time.Since(started))
		} else {
			err = storeFile(line, port)
		}
		if err != nil {
			return err
		}
	}
}

// storeFile stores the file that follows a line. It makes the folders above it.
func storeFile(line string, port io.Reader) error {
	var size int64
	var mode uint32
	var name string
	if _, err := fmt.Sscanf(line, fileFormat, &size, &mode, &name); err != nil {
		return fmt.Errorf("the host sent %q: %w", line, err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, os.FileMode(mode))
	if err != nil {
		return err
	}
	defer f.Close()
	// Only as a plain reader and writer: splice, which Go would use, moves single pages.
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, io.LimitReader(port, size), make([]byte, 64<<10))
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.Close()
}

// readLine reads a line, and nothing behind it.
func readLine(port io.Reader) (string, error) {
	var line strings.Builder
	for b := make([]byte, 1); b[0] != '\n'; line.Write(b) {
		if _, err := io.ReadFull(port, b); err != nil {
			return "", err
		}
	}
	return line.String(), nil
}

// AwaitReady returns when the agent is ready.
func AwaitReady(port io.Reader) error {
	line, err := readLine(port)
	if err == nil && line != ready {
		err = fmt.Errorf("got %q, want the line %q", line, ready)
	}
	return err
}

// SendFile stores a file in the machine, and returns when the agent is ready again.
func SendFile(port io.ReadWriter, name string, mode os.FileMode, data []byte) error {
	if _, err := fmt.Fprintf(port, fileFormat, len(data), mode.Perm(), name); err != nil {
		return err
	}
	if _, err := port.Write(data); err != nil {
		return err
	}
	return AwaitReady(port)
}

// ReadClock returns the time of the machine's clock since the agent started, and returns when the agent is ready again.
func ReadClock(port io.ReadWriter) (time.Duration, error) {
	if _, err := io.WriteString(port, clock); err != nil {
		return 0, err
	}
	line, err := readLine(port)
	if err != nil {
		return 0, err
	}
	var now time.Duration
	if _, err := fmt.Sscanf(line, clockFormat, &now); err != nil {
		return 0, fmt.Errorf("the agent sent %q: %w", line, err)
	}
	return now, AwaitReady(port)
}

// Begin is the last line of the host.
func Begin(port io.Writer) error {
	_, err := io.WriteString(port, begin)
	return err
}
