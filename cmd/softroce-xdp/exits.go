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

// exitCodes are shown by the help, the man pages and docs/operations.md.
var exitCodes = []exitCode{
	{exitOK, "done", "where something was checked, the answer is yes"},
	{exitUsage, "the command line is wrong, or a file that it names", "the message says what is allowed; nothing was done"},
	{exitSystem, "the system could not do it", "also where the output could not be written"},
	{exitNo, "checked, and the answer is no", "`decode` found a wrong ICRC, `sim run --check` a criterion that is missed, " +
		"`perf --check` wrong data, `status --check` a problem or nothing attached, `features` that something required is missing"},
}

// usageError is what the user can put right on the command line or, plain, in a
// file: no use in telling them of --help then.
type usageError struct {
	error
	plain bool
}

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return usageError{error: fmt.Errorf(format, args...)}
}

// noError is the answer no to what the user asked to be checked.
type noError struct{ error }

func (e noError) Unwrap() error { return e.error }

func answerNo(format string, args ...any) error { return noError{fmt.Errorf(format, args...)} }

// exitOf is the exit code of an error. parsed says that the command line was
// understood: what goes wrong then is the system's fault unless the error says else.
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

// fileError makes an error about a file that the user named a usage error, unless the
// system failed to read it.
func fileError(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) && errno != unix.ENOENT && errno != unix.ENOTDIR && errno != unix.EISDIR && errno != unix.ENAMETOOLONG {
		return err
	}
	return usageError{err, true}
}

// hint says what to do about errors that come from deep below.
func hint(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return "This needs root: run it with sudo."
	case errors.Is(err, loader.ErrNotAttached):
		return "`softroce-xdp status` shows what is attached."
	}
	return ""
}

// checkedOutput notes the first error of writing. Commands print line by line and do
// not look.
type checkedOutput struct {
	io.Writer
	err error
}

func (o *checkedOutput) Write(b []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.Writer.Write(b)
	o.err = err
	return n, err
}
