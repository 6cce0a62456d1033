// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/rpc"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer/internal/agent"
)

// VM is a running machine. Its methods may be used side by side.
type VM struct {
	Config   Config        // configuration with defaults filled in
	Kernel   string        // the machine's uname -r
	BootTime time.Duration // time from starting qemu to the agent's answer
	Restored bool          // The machine was restored from a state and did not boot.
	Reason   string        // Why the machine booted although others of its kind are restored; or empty.
	Console  string        // path of the console log

	dir     string    // temporary, removed by Close
	started time.Time // time of the start of qemu
	pid     int
	exited  chan struct{}       // closed when qemu is gone
	stderr  bytes.Buffer        // qemu's, complete once exited
	port    *os.File            // host's end of the agent's channel
	agent   *rpc.Client         // client on port, once the machine is set up
	control *os.File            // host's end of qemu's monitor
	ports   map[string]*os.File // host's ends of Config.Ports
}

// TapName is the host's name of a machine's card, in the card's namespace.
func TapName(vmName string, card int) string { return fmt.Sprintf("%s-t%d", vmName, card) }

// Describe names the machine, its kernel, how it came to life, and why it booted if that was not planned.
func (vm *VM) Describe() string {
	how := "booted"
	if vm.Restored {
		how = "restored"
	}
	text := fmt.Sprintf("%s: Linux %s, %s in %v", vm.Config.Name, vm.Kernel, how, vm.BootTime.Round(time.Millisecond))
	if vm.Reason != "" {
		text += ", not restored: " + vm.Reason
	}
	return text
}

// Boot starts a machine and returns when its agent answers, its files are there, its addresses are set
// and its rxe devices exist. It restores a state of such a machine, and boots where that is not
// possible. ctx bounds booting only; the machine lives until Close, or until this process ends.
func Boot(ctx context.Context, cfg Config) (*VM, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if err := needTools(bootTools); err != nil {
		return nil, fmt.Errorf("rxepeer: to boot a machine this host lacks %w", err)
	}
	if cfg.Image == nil {
		if cfg.Image, err = EnsureImage(ctx, cfg.Release); err != nil {
			return nil, err
		}
	}
	vm, reason, err := tryRestore(ctx, cfg)
	if vm != nil || err != nil {
		return vm, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Boot)
	defer cancel()
	return launch(ctx, cfg, func(ctx context.Context, vm *VM) error {
		vm.Reason = reason
		if err := vm.boot(ctx, ""); err != nil {
			return err
		}
		return vm.setUp(ctx)
	})
}

// launches is how often a machine is started whose qemu ends by an assertion of its own.
const launches = 3

// launch makes a machine by f. A machine that f fails on is closed.
func launch(ctx context.Context, cfg Config, f func(context.Context, *VM) error) (*VM, error) {
	for try := 1; ; try++ {
		vm := &VM{Config: cfg, exited: make(chan struct{})}
		err := f(ctx, vm)
		if err == nil {
			return vm, nil
		}
		err = errors.Join(fmt.Errorf("rxepeer: start %s: %w", cfg.Name, err), vm.Close())
		if try == launches || ctx.Err() != nil || !assertionFailed(err) {
			return nil, err
		}
	}
}

// assertionFailed reports whether qemu has ended by an assertion of its own, which happens once in some hundred starts of emulated
// machines (msix_table_mmio_write).
func assertionFailed(err error) bool { return strings.Contains(err.Error(), "Assertion `") }

// startQemu starts qemu with the agent's socket, the monitor's, those of the ports and the taps.
func (vm *VM) startQemu(s start) error {
	var files []*os.File
	defer func() { closeAll(files) }()
	channel := func(name string) (*os.File, error) {
		ours, theirs, err := socketPair(name)
		if err == nil {
			files = append(files, theirs)
		}
		return ours, err
	}
	var err error
	if vm.port, err = channel("agent"); err != nil {
		return err
	}
	if vm.control, err = channel("monitor"); err != nil {
		return err
	}
	vm.ports = map[string]*os.File{}
	for i := range portsOf(vm.Config) {
		name := agent.FurtherPort(i)
		if i < len(vm.Config.Ports) {
			name = vm.Config.Ports[i]
		}
		if vm.ports[name], err = channel(name); err != nil {
			return err
		}
	}
	for i, n := range vm.Config.NICs {
		fds, err := n.Net.addTap(TapName(vm.Config.Name, i), n.MTU, n.Queues)
		if err != nil {
			return err
		}
		files = append(files, fds...)
	}
	cmd := qemuCommand(vm.Config.Image, qemuArgs(vm.Config, s))
	cmd.ExtraFiles = files
	cmd.Stdout, cmd.Stderr = &vm.stderr, &vm.stderr
	// The kernel kills qemu when the thread that started it ends: not before we do.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its last words are in vm.stderr
			close(vm.exited)
		}
	}()
	vm.started = time.Now()
	if err = <-started; err != nil {
		return err
	}
	vm.pid = cmd.Process.Pid
	return nil
}

// socketPair makes our end, whose Close wakes a pending Read, and the one for qemu.
func socketPair(name string) (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair for port %s: %w", name, err)
	}
	// Non-blocking before NewFile, for that Close.
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, nil, errors.Join(err, unix.Close(pair[0]), unix.Close(pair[1]))
	}
	return os.NewFile(uintptr(pair[0]), name), os.NewFile(uintptr(pair[1]), name+"-qemu"), nil
}

// Port returns the host's end of a port of Config.Ports; Close of the machine closes it. What is
// written waits until a program in the machine opens the other end.
func (vm *VM) Port(name string) (io.ReadWriter, error) {
	p := vm.ports[name]
	if p == nil || !slices.Contains(vm.Config.Ports, name) {
		return nil, fmt.Errorf("rxepeer: machine %s has no port %q: name it in Config.Ports", vm.Config.Name, name)
	}
	return p, nil
}

// call asks the agent, until ctx ends or qemu does.
func (vm *VM) call(ctx context.Context, method string, args, reply any) error {
	call := vm.agent.Go(agent.Service+"."+method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		if call.Error == nil || errors.As(call.Error, new(rpc.ServerError)) {
			return call.Error
		}
		// The channel broke. If that is because the machine died, say so.
		select {
		case <-vm.exited:
			return vm.died()
		case <-time.After(exitPatience):
		}
		return fmt.Errorf("machine %s: %w\nend of the console:\n%s", vm.Config.Name, call.Error, vm.consoleTail())
	case <-vm.exited:
		return vm.died()
	case <-ctx.Done():
		if method == "SetUp" {
			return fmt.Errorf("no answer from its agent: %w\nend of the console:\n%s", ctx.Err(), vm.consoleTail())
		}
		return fmt.Errorf("machine %s: %s: %w", vm.Config.Name, method, ctx.Err())
	}
}

// died describes a machine whose qemu is gone: by Close, or by a panic of its kernel.
func (vm *VM) died() error {
	return fmt.Errorf("machine %s is gone\nqemu: %s\nend of the console:\n%s",
		vm.Config.Name, tail(vm.stderr.Bytes(), 2000), vm.consoleTail())
}

// Close ends the machine at once and removes its taps and temporary files. It may be called
// more than once.
func (vm *VM) Close() error {
	var errs []error
	if vm.agent != nil {
		if err := vm.agent.Close(); err != nil && !errors.Is(err, rpc.ErrShutdown) {
			errs = append(errs, err)
		}
	}
	if vm.pid != 0 {
		select {
		case <-vm.exited:
		default:
			// Not reaped yet, so the number is still its own.
			_ = unix.Kill(vm.pid, unix.SIGKILL)
			<-vm.exited
		}
	}
	ends := append(slices.Collect(maps.Values(vm.ports)), vm.port, vm.control)
	for _, p := range ends {
		if p == nil {
			continue
		}
		if err := p.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if vm.dir != "" {
		errs = append(errs, os.RemoveAll(vm.dir))
	}
	return errors.Join(errs...)
}

func (vm *VM) consoleTail() string {
	b, err := os.ReadFile(vm.Console)
	if err != nil {
		return ""
	}
	return string(tail(b, 4000))
}

// BootAll boots machines side by side. If one fails, the others are closed.
func BootAll(ctx context.Context, configs ...Config) ([]*VM, error) {
	vms, errs := make([]*VM, len(configs)), make([]error, len(configs))
	var wg sync.WaitGroup
	for i, cfg := range configs {
		wg.Go(func() { vms[i], errs[i] = Boot(ctx, cfg) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		return vms, nil
	}
	for _, vm := range vms {
		if vm != nil {
			err = errors.Join(err, vm.Close())
		}
	}
	return nil, err
}
