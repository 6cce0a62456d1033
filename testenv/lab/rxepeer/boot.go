// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer/internal/agent"
)

// boot starts a machine that boots, with its memory in the folder of a state if there is one, and
// returns when its agent is ready and the files are there.
func (vm *VM) boot(ctx context.Context, state string) error {
	if err := vm.makeDir(); err != nil {
		return err
	}
	initrd := filepath.Join(vm.dir, "initrd")
	if err := vm.makeInitrd(initrd); err != nil {
		return err
	}
	if err := vm.startQemu(start{initrd: initrd, state: state, console: vm.Console}); err != nil {
		return err
	}
	defer interrupt(ctx, vm.port)()
	if err := agent.AwaitReady(vm.port); err != nil {
		return vm.failed("no answer from its agent", errors.Join(err, ctx.Err()))
	}
	for _, to := range slices.Sorted(maps.Keys(vm.Config.Files)) {
		info, err := os.Stat(vm.Config.Files[to])
		if err != nil {
			return err
		}
		b, err := os.ReadFile(vm.Config.Files[to])
		if err != nil {
			return err
		}
		if err := agent.SendFile(vm.port, to, info.Mode(), b); err != nil {
			return vm.failed("file "+to, errors.Join(err, ctx.Err()))
		}
	}
	return nil
}

// startFrom starts qemu, which waits for the devices of a state.
func (vm *VM) startFrom(state string) error {
	vm.Restored = true
	if err := vm.makeDir(); err != nil {
		return err
	}
	return vm.startQemu(start{state: state, console: vm.Console})
}

// resume makes the machine continue from the state that it started from.
func (vm *VM) resume(ctx context.Context, state string) error {
	m, err := openMonitor(ctx, vm.control)
	if err == nil {
		err = m.restore(ctx, state)
	}
	if err != nil {
		return vm.failed("restore", err)
	}
	return nil
}

// makeDir makes the machine's temporary folder and names its console log.
func (vm *VM) makeDir() (err error) {
	if vm.dir, err = os.MkdirTemp("", "rxepeer-"); err != nil {
		return err
	}
	logDir := vm.Config.Dir
	if logDir == "" {
		logDir = vm.dir
	}
	vm.Console = filepath.Join(logDir, vm.Config.Name+".console")
	return nil
}

// setUp makes the machine the one of its configuration.
func (vm *VM) setUp(ctx context.Context) error {
	c := vm.Config
	args := agent.SetUp{
		Host: c.Name, Rxe: !c.NoRxe, Ports: c.Ports,
		Time: time.Now().Add(-clockLag(c.Name)), Entropy: make([]byte, 64),
	}
	if _, err := rand.Read(args.Entropy); err != nil {
		return err
	}
	for _, n := range c.NICs {
		nic := agent.NIC{MAC: n.MAC.String()}
		for _, a := range n.Addrs {
			nic.Addrs = append(nic.Addrs, a.String())
		}
		args.NICs = append(args.NICs, nic)
	}
	if err := agent.Begin(vm.port); err != nil {
		return vm.failed("begin", err)
	}
	vm.agent = rpc.NewClient(vm.port)
	var hello agent.Hello
	if err := vm.call(ctx, "SetUp", args, &hello); err != nil {
		return err
	}
	if len(hello.Problems) > 0 {
		return problems(hello.Problems)
	}
	vm.Kernel, vm.BootTime = hello.Kernel, time.Since(vm.started)
	return nil
}

// problems are what went wrong in a machine while it booted and was set up.
type problems []string

func (p problems) Error() string { return "setting the machine up: " + strings.Join(p, "; ") }

// clockLag is how far a machine's clock is behind this host's, below a second: the clocks of two hosts
// differ, and those of two machines restored from one state would not.
func clockLag(name string) time.Duration {
	sum := sha256.Sum256([]byte(name))
	return time.Duration(sum[0]) * time.Second / 256
}

// exitPatience is how long a qemu whose channel has broken may take to exit.
const exitPatience = 30 * time.Second

// failed describes a machine that did not come to life; qemu's words explain it if qemu has ended.
func (vm *VM) failed(what string, err error) error {
	select {
	case <-vm.exited:
		return fmt.Errorf("%s: %w: %w", what, err, vm.died())
	case <-time.After(exitPatience):
		return fmt.Errorf("%s: %w\nend of the console:\n%s", what, err, vm.consoleTail())
	}
}

// interrupt makes pending and later reads and writes of a connection fail when ctx ends, until the
// returned function is called.
func interrupt(ctx context.Context, conn *os.File) func() {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // it may be closed
	return func() {
		if stop() {
			_ = conn.SetDeadline(time.Time{})
		}
	}
}

// makeInitrd puts the agent behind the image's files.
func (vm *VM) makeInitrd(name string) error {
	guest, err := guestProgram()
	if err != nil {
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
	if err := writeProgram(out, "init", guest); err != nil {
		return err
	}
	return out.Close()
}

// guestProgram is /init of every machine, built once in a process. Its bytes depend on its sources and Go only.
var guestProgram = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "rxepeer-guest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "guest")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", name,
		"github.com/softroce/softroce-xdp/testenv/lab/rxepeer/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if _, err := outputOf(build); err != nil {
		return nil, err
	}
	return os.ReadFile(name)
})
