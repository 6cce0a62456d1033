// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	Console  string        // path of the console log

	dir    string // temporary, removed by Close
	pid    int
	exited chan struct{} // closed when qemu is gone
	stderr bytes.Buffer  // qemu's, complete once exited
	agent  *rpc.Client
	ports  map[string]*os.File // host's ends of Config.Ports
}

// TapName is the host's name of a machine's card, in the card's namespace.
func TapName(vmName string, card int) string { return fmt.Sprintf("%s-t%d", vmName, card) }

// Boot starts a machine and returns when its agent answers, its addresses are set and its
// rxe devices exist. ctx bounds booting only; the machine lives until Close, or until
// this process ends.
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
	ctx, cancel := context.WithTimeout(ctx, cfg.Boot)
	defer cancel()
	vm := &VM{Config: cfg, exited: make(chan struct{})}
	if err := vm.boot(ctx); err != nil {
		err = fmt.Errorf("rxepeer: boot %s: %w", cfg.Name, err)
		return nil, errors.Join(err, vm.Close())
	}
	return vm, nil
}

func (vm *VM) boot(ctx context.Context) error {
	var err error
	if vm.dir, err = os.MkdirTemp("", "rxepeer-"); err != nil {
		return err
	}
	logDir := vm.Config.Dir
	if logDir == "" {
		logDir = vm.dir
	}
	vm.Console = filepath.Join(logDir, vm.Config.Name+".console")
	initrd := filepath.Join(vm.dir, "initrd")
	if err := vm.makeInitrd(ctx, initrd); err != nil {
		return err
	}
	start := time.Now()
	conn, err := vm.startQemu(qemuArgs(vm.Config, initrd, vm.Console))
	if err != nil {
		return err
	}
	vm.agent = rpc.NewClient(conn)
	var hello agent.Hello
	if err := vm.call(ctx, "Hello", agent.Empty{}, &hello); err != nil {
		return err
	}
	vm.Kernel, vm.BootTime = hello.Kernel, time.Since(start)
	if len(hello.Problems) > 0 {
		return fmt.Errorf("setting the machine up: %s", strings.Join(hello.Problems, "; "))
	}
	return nil
}

// makeInitrd puts the files of this boot behind the image's.
func (vm *VM) makeInitrd(ctx context.Context, name string) error {
	guest := filepath.Join(vm.dir, "guest")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", guest,
		"github.com/softroce/softroce-xdp/testenv/lab/rxepeer/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if _, err := outputOf(build); err != nil {
		return err
	}
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer out.Close()
	base, err := os.Open(vm.Config.Image.Initrd)
	if err != nil {
		return err
	}
	defer base.Close()
	n, err := io.Copy(out, base)
	if err != nil {
		return err
	}
	// The kernel skips zeros between archives, and wants each at a multiple of 4.
	if _, err := out.Write(make([]byte, -n&3)); err != nil {
		return err
	}
	if err := writeFiles(out, withFile(vm.Config.Files, "/init", guest)); err != nil {
		return err
	}
	return out.Close()
}

// startQemu starts qemu with the agent's socket and the taps, and returns our end of
// the socket.
func (vm *VM) startQemu(args []string) (io.ReadWriteCloser, error) {
	ours, theirs, err := socketPair("agent")
	if err != nil {
		return nil, err
	}
	files := []*os.File{theirs}
	defer func() { closeAll(files) }()
	vm.ports = map[string]*os.File{}
	for _, name := range vm.Config.Ports {
		here, there, err := socketPair(name)
		if err != nil {
			ours.Close()
			return nil, err
		}
		vm.ports[name] = here
		files = append(files, there)
	}
	for i, n := range vm.Config.NICs {
		fds, err := n.Net.addTap(TapName(vm.Config.Name, i), n.MTU, n.Queues)
		if err != nil {
			ours.Close()
			return nil, err
		}
		files = append(files, fds...)
	}
	cmd := qemuCommand(vm.Config.Image, args)
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
	if err := <-started; err != nil {
		ours.Close()
		return nil, err
	}
	vm.pid = cmd.Process.Pid
	return ours, nil
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
	if p == nil {
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
		case <-time.After(time.Second):
		}
		return fmt.Errorf("machine %s: %w\nend of the console:\n%s", vm.Config.Name, call.Error, vm.consoleTail())
	case <-vm.exited:
		return vm.died()
	case <-ctx.Done():
		if method == "Hello" {
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
	for _, p := range vm.ports {
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
