// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/texts"
)

// Exit codes. ExitCodes describes them.
const (
	ExitOK     = 0
	exitUsage  = 1
	exitSystem = 2
	exitNo     = 3
)

// ExitCode is one of them with its meaning.
type ExitCode struct {
	Number  int
	Meaning string
	Detail  string
}

var exitCodes = []ExitCode{
	{ExitOK, "done", "where something was checked, the answer is yes"},
	{exitUsage, "the command line is wrong, or a file that it names", "the message says what is allowed; nothing was done"},
	{exitSystem, "the system could not do it", "also where the output could not be written"},
	{exitNo, "checked, and the answer is no", ""}, // negative has the details
}

// negative has the commands of each program that end with exitNo, and what they have found.
var negative = []struct{ program, found string }{
	{"softroce-xdp", "`softroce-xdp decode` found a wrong ICRC, `softroce-xdp perf --check` wrong data, " +
		"`softroce-xdp ping` a round trip that was lost or wrong data, `softroce-xdp status --check` a problem or nothing attached, " +
		"`softroce-xdp features` that something required is missing"},
	{"softroce-pool", "`softroce-pool join --check` or `softroce-pool map` found wrong data"},
	{"softroce-card", "`softroce-card status --check` found a problem or nothing attached"},
	{"softroce-sim", "`softroce-sim run --check` found a criterion that is missed"},
}

// ExitCodes returns the exit codes with the details of a program, or of all programs for "".
// Man pages show the former, docs/run/operations.md shows the latter.
func ExitCodes(program string) []ExitCode {
	var found []string
	for _, n := range negative {
		if program == "" || program == n.program {
			found = append(found, n.found)
		}
	}
	codes := slices.Clone(exitCodes)
	codes[exitNo].Detail = strings.Join(found, ", ")
	return codes
}

// ExitNumbers returns the codes.
func ExitNumbers() (all []int) {
	for _, c := range exitCodes {
		all = append(all, c.Number)
	}
	return all
}

// usageError is an error of the command line. plain: an error in a file, for which --help is of
// no use.
type usageError struct {
	error
	plain bool
}

func (e usageError) Unwrap() error { return e.error }

// Usage makes an error one of the command line.
func Usage(err error) error { return usageError{error: err} }

// PlainUsage makes an error in a file that the command line names one of the command line.
func PlainUsage(err error) error { return usageError{error: err, plain: true} }

// Usagef is Usage of a new error.
func Usagef(format string, args ...any) error {
	return Usage(fmt.Errorf(format, args...))
}

// noError is the negative result of a check (exitNo).
type noError struct{ error }

func (e noError) Unwrap() error { return e.error }

// No makes an error the negative result of a check.
func No(err error) error { return noError{err} }

// AnswerNo is No of a new error.
func AnswerNo(format string, args ...any) error { return No(fmt.Errorf(format, args...)) }

// exitOf returns the exit code of an error. parsed: the command line was accepted, so errors
// that are neither usageError nor noError have exitSystem.
func (p *Program) exitOf(err error, parsed bool) int {
	var usage usageError
	var no noError
	switch {
	case err == nil:
		return ExitOK
	case !parsed, errors.As(err, &usage), p.Misuse != nil && p.Misuse(err):
		return exitUsage
	case errors.As(err, &no):
		return exitNo
	}
	return exitSystem
}

// FileError returns an error about a file of the command line as a usage error, unless reading
// has failed.
func FileError(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) && errno != unix.ENOENT && errno != unix.ENOTDIR && errno != unix.EISDIR && errno != unix.ENAMETOOLONG {
		return err
	}
	return PlainUsage(err)
}

// hintOf returns what to do about an error whose text does not say it; "" = nothing is known.
func (p *Program) hintOf(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return "This needs root: run it with sudo."
	case p.Hint != nil:
		return p.Hint(err)
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
	return texts.PrintableWriter{W: rawOutput{o}}.Write(b)
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
type checkedErrors struct{ texts.PrintableWriter }

// RawOf returns what writes to the same file as w without escapes.
func RawOf(w io.Writer) io.Writer {
	switch o := w.(type) {
	case *checkedOutput:
		return rawOutput{o}
	case checkedErrors:
		return o.W
	}
	return w
}
