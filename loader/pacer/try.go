// SPDX-License-Identifier: Apache-2.0

package pacer

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Try returns an error if the kernel does not support a pacer. It sets the pacer up on the
// loopback interface of a temporary network namespace, so no existing interface changes.
func Try(kind Kind) error {
	err, fatal := inNewNamespace(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if kind == HTB {
			return newHTB(lo).install()
		}
		_, err = Setup(lo, kind)
		return err
	})
	return errors.Join(fatal, err)
}

// inNewNamespace runs f on a thread of its own, which ends with its namespace.
func inNewNamespace(f func() error) (result, fatal error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine
		ns, err := netns.New()
		if err != nil {
			fatal = fmt.Errorf("make a network namespace to try pacers in: %w", err)
			return
		}
		defer ns.Close()
		result = f()
	}()
	<-done
	return result, fatal
}
