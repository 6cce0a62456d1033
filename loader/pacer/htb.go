// SPDX-License-Identifier: Apache-2.0

package pacer

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/probe"
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
	ready bool // HTB is the root qdisc
	keep  bool // it stays without classes
	used  int  // classes
	next  uint16
	free  []uint16
}

func (*htb) Kind() Kind     { return HTB }
func (*htb) OwnQdisc() bool { return true }

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
	return &htb{link: l}, nil
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
	err := probe.Denied(probe.Htb)
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
	h := &htb{link: l}
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
	taken := map[uint16]bool{}
	for _, c := range classes {
		if major, minor := netlink.MajorMinor(c.Attrs().Handle); major == ourMajor {
			taken[minor] = true
			h.next = max(h.next, minor)
		}
	}
	h.used = len(taken)
	for minor := h.next; minor > 0; minor-- {
		if !taken[minor] {
			h.free = append(h.free, minor)
		}
	}
	return h, nil
}

// ErrNoClass: all 65535 class numbers are in use.
var ErrNoClass = errors.New("htb: no class number left: more destinations are paced than htb has classes")

func (h *htb) SetRate(class uint32, bps uint64) (uint32, error) {
	if err := h.makeReady(); err != nil {
		return 0, err
	}
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
	if fresh {
		h.used++
		if err := h.addLeaf(class); err != nil {
			return 0, errors.Join(err, h.Release(class))
		}
	}
	return class, nil
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
	c := netlink.NewHtbClass(netlink.ClassAttrs{
		LinkIndex: h.link.Attrs().Index, Parent: netlink.MakeHandle(ourMajor, 0), Handle: class,
	}, netlink.HtbClassAttrs{})
	switch err := netlink.ClassDel(c); {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL) && !h.ready:
		return nil // released before
	case err != nil:
		return fmt.Errorf("remove htb class %x: %w", class, err)
	}
	h.give(class)
	if h.used--; h.used > 0 || h.keep {
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
