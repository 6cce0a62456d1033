// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer/internal/agent"
)

// Cmd is a command in a machine.
type Cmd struct {
	Argv    []string
	Env     []string // KEY=value, on top of the machine's
	Dir     string
	Stdin   []byte
	Timeout time.Duration // the machine kills the command after it; 0: none
	// Stdout and Stderr, if set, receive output as it comes, besides what Result keeps.
	Stdout, Stderr io.Writer
}

// Result is how a command ended.
type Result struct {
	Stdout, Stderr string
	ExitCode       int // -1 if a signal ended it
	Signal         string
	TimedOut       bool
	Took           time.Duration
}

// ExitError says that a command ran and failed.
type ExitError struct {
	VM     string
	Argv   []string
	Result Result
}

func (e *ExitError) Error() string {
	how := fmt.Sprintf("exit code %d", e.Result.ExitCode)
	switch {
	case e.Result.TimedOut:
		how = fmt.Sprintf("timed out after %v", e.Result.Took.Round(time.Millisecond))
	case e.Result.Signal != "":
		how = e.Result.Signal
	}
	return fmt.Sprintf("machine %s: %s: %s\n%s%s", e.VM, strings.Join(e.Argv, " "), how,
		tail([]byte(e.Result.Stdout), 4000), tail([]byte(e.Result.Stderr), 4000))
}

// Proc is a command that was started.
type Proc struct {
	vm      *VM
	cmd     Cmd
	id      uint64
	started time.Time
	done    chan struct{}

	mu       sync.Mutex
	out, err bytes.Buffer
	res      Result // complete once done is closed
	failure  error  // the machine or the channel failed
}

// Run runs a command and waits for it. A command that exits other than with 0 gives its
// Result and an *ExitError. When ctx ends, the command is killed.
func (vm *VM) Run(ctx context.Context, argv ...string) (Result, error) {
	return vm.RunCmd(ctx, Cmd{Argv: argv})
}

// RunCmd is Run with all that Cmd offers.
func (vm *VM) RunCmd(ctx context.Context, cmd Cmd) (Result, error) {
	p, err := vm.StartCmd(ctx, cmd)
	if err != nil {
		return Result{}, err
	}
	res, err := p.Wait(ctx)
	if ctx.Err() != nil {
		_ = p.Signal(unix.SIGKILL) // as far as it can still be reached
	}
	return res, err
}

// Start starts a command in the background.
func (vm *VM) Start(ctx context.Context, argv ...string) (*Proc, error) {
	return vm.StartCmd(ctx, Cmd{Argv: argv})
}

// StartCmd is Start with all that Cmd offers. The agent answers at once, so the end of ctx does not end the call: nobody could kill
// a command that has started meanwhile.
func (vm *VM) StartCmd(ctx context.Context, cmd Cmd) (*Proc, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), controlTimeout)
	defer cancel()
	p := &Proc{vm: vm, cmd: cmd, started: time.Now(), done: make(chan struct{})}
	args := agent.Start{Argv: cmd.Argv, Env: cmd.Env, Dir: cmd.Dir, Stdin: cmd.Stdin, Timeout: cmd.Timeout}
	if err := vm.call(ctx, "Start", args, &p.id); err != nil {
		return nil, fmt.Errorf("rxepeer: start %s: %w", strings.Join(cmd.Argv, " "), err)
	}
	go p.follow()
	return p, nil
}

// follow collects output until the command or the machine ends.
func (p *Proc) follow() {
	defer close(p.done)
	for {
		var got agent.Output
		err := p.vm.call(context.Background(), "Read", p.id, &got)
		p.mu.Lock()
		if err != nil {
			p.failure = fmt.Errorf("rxepeer: %s: %w", strings.Join(p.cmd.Argv, " "), err)
			p.mu.Unlock()
			return
		}
		p.out.Write(got.Stdout)
		p.err.Write(got.Stderr)
		if got.Done {
			p.res = Result{
				Stdout: p.out.String(), Stderr: p.err.String(), ExitCode: got.ExitCode,
				Signal: got.Signal, TimedOut: got.TimedOut, Took: time.Since(p.started),
			}
		}
		p.mu.Unlock()
		// A writer that fails is its owner's concern; the command goes on.
		if p.cmd.Stdout != nil && len(got.Stdout) > 0 {
			_, _ = p.cmd.Stdout.Write(got.Stdout)
		}
		if p.cmd.Stderr != nil && len(got.Stderr) > 0 {
			_, _ = p.cmd.Stderr.Write(got.Stderr)
		}
		if got.Done {
			return
		}
	}
}

// Wait waits for the end of the command; see Run for what it returns. When ctx ends
// first, the command goes on.
func (p *Proc) Wait(ctx context.Context) (Result, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		out, err := p.Output()
		return Result{Stdout: out, Stderr: err}, fmt.Errorf("rxepeer: machine %s: %s: %w\n%s%s",
			p.vm.Config.Name, strings.Join(p.cmd.Argv, " "), ctx.Err(), tail([]byte(out), 4000), tail([]byte(err), 4000))
	}
	if p.failure != nil {
		return Result{}, p.failure
	}
	if p.res.ExitCode != 0 || p.res.TimedOut {
		return p.res, &ExitError{VM: p.vm.Config.Name, Argv: p.cmd.Argv, Result: p.res}
	}
	return p.res, nil
}

// Output returns what the command has printed so far.
func (p *Proc) Output() (stdout, stderr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String(), p.err.String()
}

// Signal sends a signal to the command and the processes of its group.
func (p *Proc) Signal(sig unix.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
	defer cancel()
	return p.vm.call(ctx, "Signal", agent.Signal{ID: p.id, Number: int(sig)}, &agent.Empty{})
}

// controlTimeout bounds calls that the agent answers at once.
const controlTimeout = 2 * time.Minute

// IsExit reports whether err says that a command ran and failed, and how.
func IsExit(err error) (Result, bool) {
	var exit *ExitError
	if errors.As(err, &exit) {
		return exit.Result, true
	}
	return Result{}, false
}
