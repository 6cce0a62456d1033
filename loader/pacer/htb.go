// SPDX-License-Identifier: Apache-2.0

package pacer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// htb gives every destination a class of its own. The data plane puts the class
// into skb->priority, by which HTB finds it; packets of other traffic have none
// and pass HTB's direct queue unshaped.
//
// HTB is the root qdisc only while there are classes, because it costs all other traffic of
// the interface too. The kernel cannot change a root qdisc without loss: for about 100 us the
// device has none, and the packets in the old one are dropped. It is therefore changed with
// the first destination and after the last one. rdma_rxe ends a QP on such a loss: where
// there is an RDMA device, the agent calls Prepare.
//
// A class has the rate, and a bucket of the same depth, as the model in
// bpf/lib/pace.h: the departure times that go into the stamps are those at which
// HTB lets the packets go.
type htb struct {
	link  netlink.Link
	ready bool              // HTB is the root qdisc
	keep  bool              // the qdisc stays without classes
	rates map[uint32]uint64 // rates of the classes, bit/s
	next  uint16
	free  []uint16
}

func (*htb) Kind() Kind     { return HTB }
func (*htb) OwnQdisc() bool { return true }

func newHTB(l netlink.Link) *htb { return &htb{link: l, rates: map[uint32]uint64{}} }

// setupHTB does not change the interface. It returns the errors that the first class would
// cause.
func setupHTB(l netlink.Link) (Pacer, error) {
	if err := checkReplaceable(l); err != nil {
		return nil, err
	}
	// A new network namespace needs CAP_SYS_ADMIN, which attach does not.
	if err := Try(HTB); err != nil && !errors.Is(err, unix.EPERM) {
		return nil, err
	}
	return newHTB(l), nil
}

// Prepare keeps HTB until detach.
func (h *htb) Prepare() error {
	h.keep = true
	return h.makeReady()
}

func (h *htb) makeReady() error {
	if h.ready {
		return nil
	}
	if err := checkReplaceable(h.link); err != nil {
		return err
	}
	return h.install()
}

func (h *htb) install() error {
	q := netlink.NewHtb(netlink.QdiscAttrs{
		LinkIndex: h.link.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(ourMajor, 0),
	})
	q.Defcls = 0 // packets without a class pass the direct queue
	err := missing["htb"]
	if err == nil {
		err = netlink.QdiscReplace(q)
	}
	if err != nil {
		return fmt.Errorf("%s: htb root qdisc (kernel module sch_htb): %w", h.link.Attrs().Name, err)
	}
	h.ready = true
	return nil
}

// adoptHTB continues with the classes of an earlier agent. New classes get the numbers that are
// free below the largest one, then those above it.
func adoptHTB(l netlink.Link) (Pacer, error) {
	h := newHTB(l)
	root, err := rootQdisc(l)
	if err != nil {
		return nil, err
	}
	if root == nil || !isOurs(root) {
		return h, nil
	}
	h.ready = true
	classes, err := netlink.ClassList(l, netlink.HANDLE_NONE)
	if err != nil {
		return nil, fmt.Errorf("%s: list htb classes: %w", l.Attrs().Name, err)
	}
	for _, c := range classes {
		c, ok := c.(*netlink.HtbClass)
		if !ok {
			continue
		}
		if major, minor := netlink.MajorMinor(c.Handle); major == ourMajor {
			h.rates[c.Handle] = c.Rate * 8
			h.next = max(h.next, minor)
		}
	}
	for minor := h.next; minor > 0; minor-- {
		if _, taken := h.rates[netlink.MakeHandle(ourMajor, minor)]; !taken {
			h.free = append(h.free, minor)
		}
	}
	return h, nil
}

// ErrNoClass: all 65535 class numbers are in use.
var ErrNoClass = errors.New("htb: no class number left: more destinations are paced than htb has classes")

func (h *htb) SetRate(class uint32, bps uint64) (uint32, error) {
	bps = max(bps, minRate)
	_, known := h.rates[class]
	if class != 0 { // recorded in any case: Repair creates what fails here
		if !known { // of an earlier agent, and somebody has removed its root qdisc
			h.claim(uint16(class))
		}
		h.rates[class] = bps
	}
	if err := h.makeReady(); err != nil {
		return 0, err
	}
	if known {
		if err := netlink.ClassChange(h.class(class, bps)); err != nil {
			return class, fmt.Errorf("htb class %x: %w", class, err)
		}
		return class, nil
	}
	if class != 0 {
		return class, h.addClass(class, bps)
	}
	minor, err := h.take()
	if err != nil {
		return 0, err
	}
	class = netlink.MakeHandle(ourMajor, minor)
	if err := h.addClass(class, bps); err != nil {
		h.give(class)
		return 0, err
	}
	h.rates[class] = bps
	return class, nil
}

// minRate is the lowest rate of a class, bit/s: the kernel counts whole bytes per second.
const minRate = 8

func (h *htb) class(class uint32, bps uint64) *netlink.HtbClass {
	bytes := uint32(min(bps/8*uint64(Burst)/1e9, 1<<30))
	return netlink.NewHtbClass(netlink.ClassAttrs{
		LinkIndex: h.link.Attrs().Index, Parent: netlink.MakeHandle(ourMajor, 0), Handle: class,
	}, netlink.HtbClassAttrs{
		Rate: bps, Ceil: bps, Buffer: max(bytes, 1), Cbuffer: max(bytes, 1),
		Quantum: 60_000, // only classes that borrow use it, and none does
	})
}

// addClass creates a class with its queue. It leaves nothing behind when it fails.
func (h *htb) addClass(class uint32, bps uint64) error {
	c := h.class(class, bps)
	if err := netlink.ClassReplace(c); err != nil {
		return fmt.Errorf("htb class %x: %w", class, err)
	}
	if err := h.addLeaf(class); err != nil {
		return errors.Join(err, netlink.ClassDel(c))
	}
	return nil
}

// leafLimit is how many packets may wait in a class. The kernel's default is the
// interface's queue length, too few for a slow destination and many QPs: what is
// dropped there would look like loss in the network. The data plane does not limit the
// number of packets that wait (PACE_MAX_WAIT_NS of bpf/lib/pace.h limits the model only).
const leafLimit = 1 << 20

// addLeaf gives a class a pfifo of that limit. The netlink package has none.
func (h *htb) addLeaf(class uint32) error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK)
	req.AddData(&nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(h.link.Attrs().Index), Parent: class})
	req.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("pfifo")))
	req.AddData(nl.NewRtAttr(nl.TCA_OPTIONS, nl.Uint32Attr(leafLimit))) // struct tc_fifo_qopt
	if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("queue of htb class %x: %w", class, err)
	}
	return nil
}

// Backlog requests the statistics of one class: the cost of a dump grows with the number of
// classes.
func (h *htb) Backlog(class uint32) (uint64, bool, error) {
	// Without NLM_F_ECHO the kernel returns no statistics; without NLM_F_ACK Execute would
	// wait for the end of the answer.
	req := nl.NewNetlinkRequest(unix.RTM_GETTCLASS, unix.NLM_F_ECHO|unix.NLM_F_ACK)
	req.AddData(&nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(h.link.Attrs().Index), Handle: class, Parent: netlink.MakeHandle(ourMajor, 0)})
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWTCLASS)
	if err != nil {
		return 0, false, fmt.Errorf("htb class %x: %w", class, err)
	}
	for _, m := range msgs {
		attrs, err := nl.ParseRouteAttr(m[nl.SizeofTcMsg:])
		if err != nil {
			return 0, false, fmt.Errorf("htb class %x: %w", class, err)
		}
		for _, a := range attrs {
			if a.Attr.Type != nl.TCA_STATS2 {
				continue
			}
			inner, err := nl.ParseRouteAttr(a.Value)
			if err != nil {
				return 0, false, fmt.Errorf("htb class %x: %w", class, err)
			}
			for _, q := range inner {
				if q.Attr.Type == nl.TCA_STATS_QUEUE && len(q.Value) >= 8 {
					return uint64(nl.NativeEndian().Uint32(q.Value[4:])), true, nil // gnet_stats_queue.backlog
				}
			}
		}
	}
	return 0, false, fmt.Errorf("htb class %x: the kernel gave no statistics", class)
}

func (h *htb) Release(class uint32) error {
	if class == 0 {
		return nil
	}
	switch err := netlink.ClassDel(h.class(class, minRate)); {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL): // it is gone, or its root qdisc is
	case err != nil:
		return fmt.Errorf("remove htb class %x: %w", class, err)
	}
	if _, known := h.rates[class]; !known {
		return nil // released before
	}
	h.give(class)
	delete(h.rates, class)
	if len(h.rates) > 0 || h.keep {
		return nil
	}
	h.ready, h.next, h.free = false, 0, nil
	return Restore(h.link)
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

// claim takes a number that is not in use.
func (h *htb) claim(minor uint16) {
	for h.next < minor {
		h.next++
		h.free = append(h.free, h.next)
	}
	h.free = slices.DeleteFunc(h.free, func(n uint16) bool { return n == minor })
}
