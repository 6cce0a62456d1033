// SPDX-License-Identifier: Apache-2.0

package pacer

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Try asks the kernel whether a pacer of that name can work, and returns nil or
// why not. It tries on the loopback of a network namespace made for this and
// thrown away: the kernel's own answer, with no interface touched.
func Try(name string) error {
	err, fatal := inNewNamespace(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if name == "htb" {
			return (&htb{link: lo}).install()
		}
		_, err = Setup(lo, name)
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
