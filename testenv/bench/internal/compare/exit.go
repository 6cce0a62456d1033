// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"

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

// Failure gives an error the exit status 2, unless it says only that targets are missed. The status of other errors
// is 1, as they concern the command line.
func Failure(err error) error {
	if err == nil || onlyMissed(err) {
		return err
	}
	return failure{err}
}

// onlyMissed reports whether the error says that targets are missed, and nothing else.
func onlyMissed(err error) bool {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(part error) bool { return !onlyMissed(part) })
	case interface{ Unwrap() error }:
		return onlyMissed(e.Unwrap())
	}
	return err == errMissed
}

// Run executes the process's command line and returns its exit status. SIGINT and SIGTERM end the command's context;
// a second one ends the process.
func Run(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	root.SilenceUsage, root.SilenceErrors = true, true
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !onlyMissed(err) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", cmd.CommandPath(), err)
	}
	return statusOf(err)
}

func statusOf(err error) int {
	var f failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		return failed
	}
	return missed
}
