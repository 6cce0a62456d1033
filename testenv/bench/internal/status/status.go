// SPDX-License-Identifier: Apache-2.0

// Package status runs a command line and has the exit statuses of all benchmarks:
//
//	0  measured, and no target is missed
//	1  a target is missed, or the command line is wrong
//	2  not measured: the message says why
package status

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

const (
	missed = 1
	failed = 2
)

// errMissed needs no message: the table marks the rows.
var errMissed = errors.New("a target is missed")

// failure is an error that occurred after the command line was understood.
type failure struct{ error }

func (e failure) Unwrap() error { return e.error }

// Failure gives an error the exit status 2. The status of other errors is 1, as
// they concern the command line.
func Failure(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// Verdict is the error of a benchmark: ok says that no target was missed, and err
// that it could not measure.
func Verdict(ok bool, err error) error {
	if err == nil && !ok {
		return errMissed
	}
	return Failure(err)
}

// Run executes the process's command line and returns its exit status. SIGINT and
// SIGTERM end the command's context; a second one ends the process.
func Run(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	root.SilenceUsage, root.SilenceErrors = true, true
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !errors.Is(err, errMissed) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", cmd.CommandPath(), err)
	}
	return of(err)
}

func of(err error) int {
	var f failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		return failed
	}
	return missed
}
