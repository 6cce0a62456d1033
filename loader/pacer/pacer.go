// SPDX-License-Identifier: Apache-2.0

// Package pacer makes packets wait for their turn. Internal to this project. The data plane decides
// when a packet leaves (bpf/lib/pace.h); a pacer is the part of the kernel that keeps it until
// then, and this package sets that part up and takes it down again.
package pacer

import (
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Burst is the burst that an idle destination may send, as time at its rate. It has to cover
// the lateness of the machine's timers, or the rate is not reached.
const Burst = 4 * time.Millisecond

// A Pacer enforces rates on one interface.
type Pacer interface {
	// Kind is never Auto.
	Kind() Kind
	// OwnQdisc reports whether the root qdisc is replaced, by Setup or (htb) by the
	// first SetRate.
	OwnQdisc() bool
	// Prepare makes the change of the interface that the first SetRate would make.
	// It lasts until detach.
	Prepare() error
	// SetRate sets the rate of a destination's class. class is the result of an
	// earlier call, 0 = a new class. The result goes into dest_regs.class_id.
	// Pacers without classes return 0.
	SetRate(class uint32, bps uint64) (uint32, error)
	// Backlog returns the number of bytes that wait in the class. ok is false for
	// pacers whose packets have departure times, which always agree with the model.
	Backlog(class uint32) (bytes uint64, ok bool, err error)
	// Release removes the class of a destination that was deleted. htb restores the
	// root qdisc with the last one.
	Release(class uint32) error
	// Check compares the qdiscs of the interface with those that the pacer needs now.
	Check() (Condition, error)
	// Repair creates what is missing. It returns an error if another root qdisc is
	// configured, and does not change that.
	Repair() error
}

// Setup prepares the interface for a pacer; Auto takes the first of EDT and HTB that works. It
// refuses to replace a configured root qdisc.
func Setup(l netlink.Link, kind Kind) (Pacer, error) {
	switch kind {
	case Auto:
		p, err := Setup(l, EDT)
		if err == nil {
			return p, nil
		}
		p, err2 := Setup(l, HTB)
		if err2 == nil {
			return p, nil
		}
		return nil, fmt.Errorf("no pacer works here: edt: %w; htb: %w; choose --pacer police (drops what is too fast) or none", err, err2)
	case EDT:
		return setupEDT(l)
	case HTB:
		return setupHTB(l)
	case Police, None:
		return simple{kind}, nil
	}
	return nil, fmt.Errorf("no pacer %q: choose auto, edt, htb, police or none", kind)
}

// Adopt returns the pacer that an earlier Setup has left on the interface.
func Adopt(l netlink.Link, kind Kind, ownQdisc bool) (Pacer, error) {
	switch kind {
	case EDT:
		return edt{l, ownQdisc}, nil
	case HTB:
		return adoptHTB(l)
	case Police, None:
		return simple{kind}, nil
	}
	return nil, fmt.Errorf("no pacer %q: it must be edt, htb, police or none", kind)
}

// Restore removes the root qdisc of the pacer; the kernel restores its default. It does nothing
// if the root qdisc was replaced by another one meanwhile.
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
type simple struct{ kind Kind }

func (s simple) Kind() Kind                             { return s.kind }
func (s simple) OwnQdisc() bool                         { return false }
func (s simple) Prepare() error                         { return nil }
func (s simple) SetRate(uint32, uint64) (uint32, error) { return 0, nil }
func (s simple) Backlog(uint32) (uint64, bool, error)   { return 0, false, nil }
func (s simple) Release(uint32) error                   { return nil }
func (s simple) Check() (Condition, error)              { return Condition{}, nil }
func (s simple) Repair() error                          { return nil }

// ourMajor is the major number of the pacer's qdiscs and classes. It distinguishes them from
// others.
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

// Installed reports whether the root qdisc of the interface is that of a pacer.
func Installed(l netlink.Link) bool {
	root, err := rootQdisc(l)
	return err == nil && root != nil && isOurs(root)
}

// Marked returns the indices of the interfaces of this network namespace that have the root qdisc of
// a pacer or a clsact qdisc.
func Marked() map[int]bool {
	marked := map[int]bool{}
	all, _ := netlink.QdiscList(nil)
	for _, q := range all {
		if isOurs(q) || q.Type() == "clsact" {
			marked[q.Attrs().LinkIndex] = true
		}
	}
	return marked
}

// checkReplaceable returns an error unless the root qdisc may be replaced: it is a default of
// the kernel (handle 0), which the kernel restores by itself, or belongs to a pacer.
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
