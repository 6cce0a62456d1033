// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/internal/printable"
	"github.com/softroce/softroce-xdp/loader"
)

// Exit codes. exitCodes describes them.
const (
	exitOK     = 0
	exitUsage  = 1
	exitSystem = 2
	exitNo     = 3
)

// exitCode is one of them with its meaning.
type exitCode struct {
	number  int
	meaning string
	detail  string
}

// exitCodes are shown by the help, the man pages and docs/run/operations.md.
var exitCodes = []exitCode{
	{exitOK, "done", "where something was checked, the answer is yes"},
	{exitUsage, "the command line is wrong, or a file that it names", "the message says what is allowed; nothing was done"},
	{exitSystem, "the system could not do it", "also where the output could not be written"},
	{exitNo, "checked, and the answer is no", "`decode` found a wrong ICRC, `sim run --check` a criterion that is missed, " +
		"`perf --check` wrong data, `ping` a round trip that was lost or wrong data, `pool join --check` or `pool map` wrong data, `status --check` or `card status --check` a problem or nothing attached, `features` that something required is missing"},
}

// usageError is an error of the command line. plain: an error in a file, for which --help is of
// no use.
type usageError struct {
	error
	plain bool
}

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return usageError{error: fmt.Errorf(format, args...)}
}

// noError is the negative result of a check (exitNo).
type noError struct{ error }

func (e noError) Unwrap() error { return e.error }

func answerNo(format string, args ...any) error { return noError{fmt.Errorf(format, args...)} }

// exitOf returns the exit code of an error. parsed: the command line was accepted, so errors
// that are neither usageError nor noError have exitSystem.
func exitOf(err error, parsed bool) int {
	var usage usageError
	var no noError
	var param *fourcase.ParamError
	switch {
	case err == nil:
		return exitOK
	case !parsed, errors.As(err, &usage), errors.As(err, &param):
		return exitUsage
	case errors.As(err, &no):
		return exitNo
	}
	return exitSystem
}

// fileError returns an error about a file of the command line as a usage error, unless reading
// has failed.
func fileError(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) && errno != unix.ENOENT && errno != unix.ENOTDIR && errno != unix.EISDIR && errno != unix.ENAMETOOLONG {
		return err
	}
	return usageError{err, true}
}

// hint returns what to do about an error whose text does not say it; "" = nothing is known.
func hint(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return "This needs root: run it with sudo."
	case errors.Is(err, loader.ErrNotAttached):
		return "`softroce-xdp status` shows what is attached."
	}
	return ""
}

// checkedOutput is standard output. It stores the first error of writing, because commands print line by line without
// checking errors.
type checkedOutput struct {
	io.Writer
	err error
}

// Write writes text, with escapes for control characters: parts of it come from other hosts.
func (o *checkedOutput) Write(b []byte) (int, error) {
	return printable.Writer{W: rawOutput{o}}.Write(b)
}

// rawOutput is a checkedOutput for bytes, and for text with control characters of this program.
type rawOutput struct{ *checkedOutput }

func (o rawOutput) Write(b []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.Writer.Write(b)
	o.err = err
	return n, err
}

// checkedErrors is standard error, also with escapes for control characters.
type checkedErrors struct{ printable.Writer }

// rawOf returns what writes to the same file as w without escapes.
func rawOf(w io.Writer) io.Writer {
	switch o := w.(type) {
	case *checkedOutput:
		return rawOutput{o}
	case checkedErrors:
		return o.W
	}
	return w
}
