// SPDX-License-Identifier: Apache-2.0

package pacer

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
)

// htb gives every destination a class of its own. The data plane puts the class
// into skb->priority, by which HTB finds it; packets of other traffic have none
// and pass HTB's direct queue unshaped.
//
// A class has the rate, and a bucket of the same depth, as the model in
// bpf/lib/pace.h: the departure times that go into the stamps are those at which
// HTB lets the packets go.
type htb struct {
	link netlink.Link
	next uint16
	free []uint16
}

func (*htb) Name() string   { return "htb" }
func (*htb) Kind() uint32   { return bpf.PacerHTB }
func (*htb) OwnQdisc() bool { return true }

func setupHTB(l netlink.Link) (Pacer, error) {
	if err := checkReplaceable(l); err != nil {
		return nil, err
	}
	q := netlink.NewHtb(netlink.QdiscAttrs{
		LinkIndex: l.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(ourMajor, 0),
	})
	q.Defcls = 0 // what has no class goes directly
	if err := netlink.QdiscReplace(q); err != nil {
		return nil, fmt.Errorf("%s: htb root qdisc (kernel module sch_htb): %w", l.Attrs().Name, err)
	}
	return &htb{link: l}, nil
}

// adoptHTB continues after the agent before: classes that exist keep their
// numbers, new ones come behind them.
func adoptHTB(l netlink.Link) (Pacer, error) {
	h := &htb{link: l}
	classes, err := netlink.ClassList(l, netlink.HANDLE_NONE)
	if err != nil {
		return nil, fmt.Errorf("%s: list htb classes: %w", l.Attrs().Name, err)
	}
	for _, c := range classes {
		if _, minor := netlink.MajorMinor(c.Attrs().Handle); c.Attrs().Handle>>16 == ourMajor && minor > h.next {
			h.next = minor
		}
	}
	return h, nil
}

// ErrNoClass says that all 65535 class numbers are taken.
var ErrNoClass = errors.New("htb: no class number left: more destinations are paced than htb has classes")

func (h *htb) SetRate(class uint32, bps uint64) (uint32, error) {
	fresh := class == 0
	if fresh {
		minor, err := h.take()
		if err != nil {
			return 0, err
		}
		class = netlink.MakeHandle(ourMajor, minor)
	}
	bytes := uint32(min(bps/8*uint64(Burst)/1e9, 1<<30))
	c := netlink.NewHtbClass(netlink.ClassAttrs{
		LinkIndex: h.link.Attrs().Index, Parent: netlink.MakeHandle(ourMajor, 0), Handle: class,
	}, netlink.HtbClassAttrs{
		Rate: bps, Ceil: bps, Buffer: max(bytes, 1), Cbuffer: max(bytes, 1),
		Quantum: 60_000, // only classes that borrow use it, and none does
	})
	if err := netlink.ClassReplace(c); err != nil {
		if fresh {
			h.give(class)
		}
		return 0, fmt.Errorf("htb class %x: %w", class, err)
	}
	return class, nil
}

func (h *htb) Release(class uint32) error {
	if class == 0 {
		return nil
	}
	c := netlink.NewHtbClass(netlink.ClassAttrs{
		LinkIndex: h.link.Attrs().Index, Parent: netlink.MakeHandle(ourMajor, 0), Handle: class,
	}, netlink.HtbClassAttrs{})
	if err := netlink.ClassDel(c); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove htb class %x: %w", class, err)
	}
	h.give(class)
	return nil
}

func (h *htb) take() (uint16, error) {
	if n := len(h.free); n > 0 {
		minor := h.free[n-1]
		h.free = h.free[:n-1]
		return minor, nil
	}
	if h.next == 0xffff {
		return 0, ErrNoClass
	}
	h.next++
	return h.next, nil
}

func (h *htb) give(class uint32) { h.free = append(h.free, uint16(class)) }
