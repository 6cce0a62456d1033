// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// Longest times of what comes before a machine boots because it cannot be restored. Each takes seconds on an
// idle host. The boot has Config.Boot after them.
var (
	stateTimeout   = 5 * time.Minute // Time to make a state, with the wait for processes that make others.
	restoreTimeout = 3 * time.Minute
)

// noRestore is why a machine could not be restored: from then on, the machines of this process boot.
var noRestore atomic.Pointer[string]

// unrestored is the error of a machine that cannot be restored but may boot.
type unrestored struct {
	error
	damaged bool // The state is no good.
}

// Unwrap returns the reason.
func (e *unrestored) Unwrap() error { return e.error }

// tryRestore makes a machine from a state, which it makes first if there is none. If the machine has to boot, it
// returns none, and the reason if there is one other than the configuration. ctx is the caller's.
func tryRestore(ctx context.Context, c Config) (vm *VM, reason string, err error) {
	// Devices that the caller adds cannot be saved in general.
	if c.Fresh || len(c.Qemu) > 0 {
		return nil, "", nil
	}
	if r := noRestore.Load(); r != nil {
		return nil, "no machine is restored after one that could not be: " + *r, nil
	}
	state, err := ensureState(ctx, c)
	if err == nil {
		vm, err = restored(ctx, c, state)
		if !errors.As(err, new(*unrestored)) {
			return vm, "", err
		}
	}
	if ctx.Err() != nil {
		log.Printf("rxepeer: machine %s is neither restored nor booted, because its caller's time is over: %v", c.Name, err)
		return nil, "", fmt.Errorf("rxepeer: start %s: %w", c.Name, errors.Join(ctx.Err(), err))
	}
	log.Printf("rxepeer: machine %s boots, as all further ones of this process, because it cannot be restored: %v", c.Name, err)
	reason, _, _ = strings.Cut(err.Error(), "\n") // Ends of logs follow.
	noRestore.Store(&reason)
	return nil, reason, nil
}

// restored makes a machine from a state. A state that is no good is removed.
func restored(ctx context.Context, c Config, state string) (*VM, error) {
	short, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	tried, err := os.Stat(state)
	if err != nil {
		return nil, &unrestored{err, false}
	}
	vm, err := launch(short, c, func(ctx context.Context, vm *VM) error {
		// Errors of the start and problems of the set-up would be those of a machine that boots, too.
		if err := vm.startFrom(state); err != nil {
			return err
		}
		if err := vm.resume(ctx, state); err != nil {
			return &unrestored{err, ctx.Err() == nil}
		}
		err := vm.setUp(ctx)
		if err != nil && !errors.As(err, new(problems)) {
			return &unrestored{err, false}
		}
		return err
	})
	var bad *unrestored
	if errors.As(err, &bad) && bad.damaged {
		if rmErr := removeState(ctx, state, tried); rmErr != nil {
			err = fmt.Errorf("%w; and the state stays: %w", err, rmErr)
		}
	}
	return vm, err
}

// removeState removes a state that was tried, unless another process has made it anew meanwhile.
func removeState(ctx context.Context, state string, tried os.FileInfo) error {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	unlock, err := lockStates(ctx, filepath.Dir(state))
	if err != nil {
		return err
	}
	defer unlock()
	now, err := os.Stat(state)
	if errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(now, tried) {
		return nil
	}
	if err != nil {
		return err
	}
	return discard(state)
}

// discard removes a state, in one step for others that look for it. The caller has the lock.
func discard(state string) error {
	old, err := os.MkdirTemp(filepath.Dir(state), buildPrefix)
	if err != nil {
		return err
	}
	return errors.Join(os.Rename(state, filepath.Join(old, "state")), os.RemoveAll(old))
}
