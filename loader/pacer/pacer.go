// SPDX-License-Identifier: Apache-2.0

// Package pacer makes packets wait for their turn. The data plane decides when a
// packet leaves (bpf/lib/pace.h); a pacer is the part of the kernel that keeps
// it until then, and this package sets that part up and takes it down again.
package pacer

import (
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
)

// Burst is what an idle destination may send at once, as time at its rate. It
// must cover a late timer of the machine, or the rate is lost.
const Burst = 4 * time.Millisecond

// A Pacer enforces rates on one interface.
type Pacer interface {
	// Name is what the user calls it: edt, htb, police or none.
	Name() string
	// Kind is what the data plane calls it.
	Kind() uint32
	// OwnQdisc tells whether the root qdisc is replaced, by Setup or (htb) by the
	// first SetRate.
	OwnQdisc() bool
	// Prepare does now, and for good, what the first SetRate would otherwise do to
	// the interface.
	Prepare() error
	// SetRate makes a destination's class follow its rate. class is what
	// an earlier call returned, 0 at first; the result goes into
	// dest_regs.class_id. Pacers without classes return 0.
	SetRate(class uint32, bps uint64) (uint32, error)
	// Backlog returns how many bytes wait in the class. Pacers whose packets
	// carry their own time return ok = false: nothing can go apart there.
	Backlog(class uint32) (bytes uint64, ok bool, err error)
	// Release gives the class of a destination that is gone back. htb gives the
	// root qdisc back with the last one.
	Release(class uint32) error
}

// Names lists the pacers in the order in which `auto` tries them.
var Names = []string{"edt", "htb", "police", "none"}

// Setup prepares the interface for the pacer of that name; auto takes the first
// that works. It refuses to replace a root qdisc that a person configured.
func Setup(l netlink.Link, name string) (Pacer, error) {
	switch name {
	case "auto":
		p, err := Setup(l, "edt")
		if err == nil {
			return p, nil
		}
		p, err2 := Setup(l, "htb")
		if err2 == nil {
			return p, nil
		}
		return nil, fmt.Errorf("no pacer works here: edt: %w; htb: %w; choose --pacer police (drops what is too fast) or none", err, err2)
	case "edt":
		return setupEDT(l)
	case "htb":
		return setupHTB(l)
	case "police":
		return simple{"police", bpf.PacerPolice}, nil
	case "none":
		return simple{"none", bpf.PacerNone}, nil
	}
	return nil, fmt.Errorf("no pacer %q: choose auto, edt, htb, police or none", name)
}

// Adopt returns the pacer that an earlier Setup has left on the interface.
func Adopt(l netlink.Link, name string, ownQdisc bool) (Pacer, error) {
	switch name {
	case "edt":
		return edt{own: ownQdisc}, nil
	case "htb":
		return adoptHTB(l)
	case "police":
		return simple{"police", bpf.PacerPolice}, nil
	case "none":
		return simple{"none", bpf.PacerNone}, nil
	}
	return nil, fmt.Errorf("no pacer %q", name)
}

// Restore removes the root qdisc that Setup made; the kernel puts its default
// back. It does nothing if somebody has replaced ours in the meantime.
func Restore(l netlink.Link) error {
	root, err := rootQdisc(l)
	if err != nil || root == nil || !isOurs(root) {
		return err
	}
	if err := netlink.QdiscDel(root); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%s: remove our root qdisc: %w", l.Attrs().Name, err)
	}
	return nil
}

// simple is a pacer that needs no help of the kernel.
type simple struct {
	name string
	kind uint32
}

func (s simple) Name() string                           { return s.name }
func (s simple) Kind() uint32                           { return s.kind }
func (s simple) OwnQdisc() bool                         { return false }
func (s simple) Prepare() error                         { return nil }
func (s simple) SetRate(uint32, uint64) (uint32, error) { return 0, nil }
func (s simple) Backlog(uint32) (uint64, bool, error)   { return 0, false, nil }
func (s simple) Release(uint32) error                   { return nil }

// ourMajor is the handle of qdiscs that are ours, and so how we know them.
const ourMajor = 0x5352

func isOurs(q netlink.Qdisc) bool { return q.Attrs().Handle>>16 == ourMajor }

func rootQdisc(l netlink.Link) (netlink.Qdisc, error) {
	all, err := netlink.QdiscList(l)
	if err != nil {
		return nil, fmt.Errorf("%s: list qdiscs: %w", l.Attrs().Name, err)
	}
	for _, q := range all {
		if q.Attrs().Parent == netlink.HANDLE_ROOT {
			return q, nil
		}
	}
	return nil, nil
}

// checkReplaceable lets a root qdisc go that the kernel will put back by itself
// when ours is removed: its defaults have no handle. One of our own is fine too.
func checkReplaceable(l netlink.Link) error {
	root, err := rootQdisc(l)
	if err != nil || root == nil {
		return err
	}
	if root.Attrs().Handle == 0 || isOurs(root) {
		return nil
	}
	return fmt.Errorf("%s has a configured root qdisc (%s %x:) that detach could not put back: remove it (`tc qdisc del dev %s root`) or attach with --pacer police or none",
		l.Attrs().Name, root.Type(), root.Attrs().Handle>>16, l.Attrs().Name)
}
