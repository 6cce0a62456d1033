// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// maxLogBytes is the largest size of a log. The previous log is kept as PATH.1, so both take at
// most twice that much of /run, which is in memory.
const maxLogBytes = 1 << 20

// openLog opens the log at path to be appended to.
func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// A Writer writes to standard error, which is the file at path. When the file would
// become too long, it is renamed to PATH.1, and the standard descriptors continue in a new one.
type logWriter struct {
	path  string
	max   int64
	size  int64
	fds   []int // descriptors that lead to the file
	first *os.File
}

// logStderr returns the writer of this process. The file is what standard error leads to.
func logStderr(path string) *logWriter {
	return &logWriter{path: path, max: maxLogBytes, size: length(os.Stderr), fds: []int{unix.Stdout, unix.Stderr}, first: os.Stderr}
}

func length(f *os.File) int64 {
	st, err := f.Stat()
	if err != nil {
		return 0
	}
	return st.Size()
}

// Write never splits p: a line is in one file. It is not for several goroutines at once;
// slog's handlers call it under their lock.
func (w *logWriter) Write(p []byte) (int, error) {
	if w.size > 0 && w.size+int64(len(p)) > w.max {
		if err := w.rotate(); err != nil {
			fmt.Fprintf(w.first, "the log cannot be rotated: %v\n", err)
		}
		w.size = 0 // after a failure it is tried again a whole log later
	}
	n, err := w.first.Write(p)
	w.size += int64(n)
	return n, err
}

func (w *logWriter) rotate() error {
	if err := os.Rename(w.path, w.path+".1"); err != nil {
		return err
	}
	f, err := openLog(w.path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, fd := range w.fds {
		if err := unix.Dup3(int(f.Fd()), fd, 0); err != nil {
			return err
		}
	}
	return nil
}
