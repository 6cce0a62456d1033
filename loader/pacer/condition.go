// SPDX-License-Identifier: Apache-2.0

package pacer

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Condition is the difference between the qdiscs of an interface and those that its pacer needs.
// The zero value means that there is none.
type Condition struct {
	// Other is the root qdisc that somebody has configured, for example "htb 7:"; "" = none.
	Other string
	// Gone: the root qdisc of the pacer was removed, and the kernel's default is there.
	Gone bool
	// Missing is the number of classes that were removed, while their root qdisc is there.
	Missing int
}

// Damaged reports whether something is missing that Repair creates.
func (c Condition) Damaged() bool { return c.Gone || c.Missing > 0 }

// Inspect compares the qdiscs of an interface with those of a pacer of this kind. own is
// Pacer.OwnQdisc, classes are the classes of the destinations.
func Inspect(l netlink.Link, kind Kind, own bool, classes []uint32) (c Condition, err error) {
	if kind != EDT && kind != HTB {
		return c, nil
	}
	root, err := findRoot(l)
	if err != nil {
		return c, err
	}
	switch {
	case root == nil || root.Handle == 0:
		c.Gone = kind == EDT || len(classes) > 0
		return c, nil
	case kind == EDT && !own && root.Handle>>16 != ourMajor: // an fq that was there before attach serves
		if root.Kind != "fq" {
			c.Other = root.String()
		}
		return c, nil
	case root.Handle>>16 != ourMajor:
		c.Other = root.String()
		return c, nil
	case len(classes) == 0:
		return c, nil
	}
	there, err := classesOf(l)
	if err != nil {
		return c, err
	}
	for _, class := range classes {
		if !there[class] {
			c.Missing++
		}
	}
	return c, nil
}

// TakeBack removes a root qdisc that somebody has configured in place of the pacer's, and sets up
// the pacer's again. It returns the name of what it removed, "" = nothing.
func TakeBack(l netlink.Link, kind Kind, own bool) (removed string, err error) {
	c, err := Inspect(l, kind, own, nil)
	if err != nil {
		return "", err
	}
	if c.Other != "" {
		root, err := rootQdisc(l)
		if err != nil || root == nil {
			return "", err
		}
		if err := netlink.QdiscDel(root); err != nil {
			return "", fmt.Errorf("%s: remove the root qdisc %s: %w", l.Attrs().Name, c.Other, err)
		}
	}
	if kind == EDT && (c.Other != "" || c.Gone) {
		_, err = setupEDT(l)
	}
	return c.Other, err
}

// root is the root qdisc of an interface.
type root struct {
	Kind   string
	Handle uint32
}

func (r *root) String() string { return fmt.Sprintf("%s %x:", r.Kind, r.Handle>>16) }

// findRoot returns the root qdisc, nil if none is configured. It requests that one: a dump has the
// qdiscs of all interfaces.
func findRoot(l netlink.Link) (r *root, err error) {
	// Without NLM_F_ECHO the kernel sends the answer to other listeners only.
	msg := nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(l.Attrs().Index), Parent: netlink.HANDLE_ROOT}
	err = request(unix.RTM_GETQDISC, unix.NLM_F_ECHO|unix.NLM_F_ACK, &msg, func(m []byte) {
		r = &root{Handle: nl.DeserializeTcMsg(m).Handle}
		for a := m[nl.SizeofTcMsg:]; len(a) >= unix.SizeofRtAttr; {
			n := int(nl.NativeEndian().Uint16(a))
			if n < unix.SizeofRtAttr || n > len(a) {
				return
			}
			if nl.NativeEndian().Uint16(a[2:]) == nl.TCA_KIND {
				r.Kind = string(bytes.TrimRight(a[unix.SizeofRtAttr:n], "\x00"))
				return
			}
			a = a[min((n+3)&^3, len(a)):]
		}
	})
	// The kernel does not report some of its defaults.
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: read the root qdisc: %w", l.Attrs().Name, err)
	}
	return r, nil
}

// classesOf returns the pacer's classes on an interface.
func classesOf(l netlink.Link) (map[uint32]bool, error) {
	there := map[uint32]bool{}
	msg := nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(l.Attrs().Index)}
	err := request(unix.RTM_GETTCLASS, unix.NLM_F_DUMP, &msg, func(m []byte) {
		if h := nl.DeserializeTcMsg(m).Handle; h>>16 == ourMajor {
			there[h] = true
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%s: list htb classes: %w", l.Attrs().Name, err)
	}
	return there, nil
}

// Check implements Pacer.
func (h *htb) Check() (Condition, error) {
	c, err := Inspect(h.link, HTB, true, h.classes())
	if err == nil && h.keep && len(h.rates) == 0 && c.Other == "" {
		root, err := findRoot(h.link)
		c.Gone = err == nil && (root == nil || root.Handle == 0)
		return c, err
	}
	return c, err
}

func (h *htb) classes() []uint32 {
	all := make([]uint32, 0, len(h.rates))
	for class := range h.rates {
		all = append(all, class)
	}
	return all
}

// Repair implements Pacer.
func (h *htb) Repair() error {
	c, err := h.Check()
	if err != nil || !c.Damaged() {
		return err
	}
	if c.Gone {
		h.ready = false
		if err := h.makeReady(); err != nil {
			return err
		}
	}
	there, err := classesOf(h.link)
	if err != nil {
		return err
	}
	for class, bps := range h.rates {
		if there[class] {
			continue
		}
		if err := h.addClass(class, bps); err != nil {
			return err
		}
	}
	return nil
}
