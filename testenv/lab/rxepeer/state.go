// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ensureState returns the folder of the state that a machine can be restored from. If there is none, it
// boots such a machine and saves it, within stateTimeout; concurrent callers, also in other processes, do so once.
func ensureState(ctx context.Context, c Config) (string, error) {
	key, err := stateKey(c)
	if err != nil {
		return "", err
	}
	folder := filepath.Dir(c.Image.Kernel)
	dir := filepath.Join(folder, statePrefix+key)
	if hasState(dir) {
		return dir, nil
	}
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	unlock, err := lockStates(ctx, folder)
	if err != nil {
		return "", err
	}
	defer unlock()
	if hasState(dir) {
		return dir, nil
	}
	if r := noRestore.Load(); r != nil { // Another machine of this process has tried meanwhile.
		return "", errors.New(*r)
	}
	started, err := hostStarted()
	if err == nil {
		err = removeOldStates(folder, started)
	}
	if err != nil {
		return "", err
	}
	if err := removeOthersStates(ctx, folder); err != nil {
		log.Printf("rxepeer: states of other images stay: %v", err)
	}
	for attempt := 1; ; attempt++ {
		err := newState(ctx, c, dir)
		if !errors.Is(err, errClockRate) || attempt == mostAttempts {
			return dir, err
		}
		log.Printf("rxepeer: the state of machine %s is made once more: %v", c.Name, err)
	}
}

// mostAttempts bounds how often a state is made whose clock turns out to be wrong.
const mostAttempts = 3

// newState makes a state and puts it where machines look for it. The caller has the lock.
func newState(ctx context.Context, c Config, dir string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(dir), buildPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := makeState(ctx, c, tmp); err != nil {
		return fmt.Errorf("make a state: %w", err)
	}
	return os.Rename(tmp, dir)
}

// lockStates locks the states of an image.
func lockStates(ctx context.Context, folder string) (func(), error) {
	return lock(ctx, filepath.Join(folder, statesLock))
}

const (
	statePrefix = "state-"
	buildPrefix = "making-state-"
	statesLock  = "states.lock"
)

// stateKey is a hash of all that a state depends on.
func stateKey(c Config) (string, error) {
	guest, err := guestProgram()
	if err != nil {
		return "", err
	}
	// The kernel in the machine has measured the clock of this host's processor, so a state is for this host,
	// up to its next start.
	host, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	manifest, err := os.ReadFile(filepath.Join(filepath.Dir(c.Image.Kernel), manifestFile)) // has the version of qemu
	if err != nil {
		return "", err
	}
	var files strings.Builder
	for _, to := range slices.Sorted(maps.Keys(c.Files)) {
		info, err := os.Stat(c.Files[to])
		if err != nil {
			return "", err
		}
		b, err := os.ReadFile(c.Files[to])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&files, "%q %o %x\n", to, info.Mode().Perm(), sha256.Sum256(b))
	}
	sum := sha256.New()
	for _, part := range [][]byte{guest, host, manifest, []byte(cmdline), []byte(strings.Join(machineArgs(c), " ")), []byte(files.String())} {
		fmt.Fprintf(sum, "%d\n%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// makeState boots a machine with the interfaces of a configuration, none of which is plugged in
// anywhere, and saves it.
func makeState(ctx context.Context, c Config, dir string) error {
	c.Name, c.Dir = "state", ""
	nics := make([]NIC, len(c.NICs))
	for i, n := range c.NICs {
		mtu := max(n.MTU, 1500)
		net, err := NewNet(mtu)
		if err != nil {
			return err
		}
		defer net.Close()
		n.Net = net
		nics[i] = n
	}
	c.NICs = nics
	vm, err := launch(ctx, c, func(ctx context.Context, vm *VM) error {
		if err := vm.boot(ctx, dir); err != nil {
			return err
		}
		if err := vm.checkClockRate(ctx); err != nil {
			return err
		}
		m, err := openMonitor(ctx, vm.control)
		if err == nil {
			err = m.save(ctx, dir)
		}
		return err
	})
	if err != nil {
		return err
	}
	select {
	case <-vm.exited: // now the file has all of the memory
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("the end of qemu: %w", ctx.Err()), vm.Close())
	}
	return vm.Close()
}
