// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/softroce/softroce-xdp/loader/pacer"
)

// Pacer is one way of making packets wait.
type Pacer struct {
	Name  string `json:"name"`
	Works bool   `json:"works"`
	Why   string `json:"why,omitempty"` // not
}

// tryPacers sets each pacer up on the loopback of a network namespace made for
// this and thrown away: the kernel's own answer, with no interface touched.
func tryPacers() ([]Pacer, error) {
	var out []Pacer
	for _, name := range pacer.Names {
		if name == "none" {
			continue
		}
		err, fatal := inNewNamespace(func() error {
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			_, err = pacer.Setup(lo, name)
			return err
		})
		if fatal != nil {
			return nil, fatal
		}
		p := Pacer{Name: name, Works: err == nil}
		if err != nil {
			p.Why = err.Error()
		}
		out = append(out, p)
	}
	return out, nil
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

// rootQdisc names the root qdisc as tc does.
func rootQdisc(l netlink.Link) (string, error) {
	all, err := netlink.QdiscList(l)
	if err != nil {
		return "", fmt.Errorf("list qdiscs: %w", err)
	}
	for _, q := range all {
		if q.Attrs().Parent == netlink.HANDLE_ROOT {
			return q.Type(), nil
		}
	}
	return "noqueue", nil
}
