// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"
)

// Open opens a socket and binds it to one queue. It receives nothing before its FD
// is in the XSKMAP of the interface's XDP program. The interface must be in the
// network namespace of the calling thread; the socket then works from any.
func Open(c Config) (_ *Socket, err error) {
	c, l, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	iface, err := net.InterfaceByIndex(c.Ifindex)
	if err != nil {
		return nil, fmt.Errorf("xsk: interface %d: %w (is it in this network namespace?)", c.Ifindex, err)
	}
	if err := c.checkMTU(iface); err != nil {
		return nil, err
	}
	if n, known := Queues(iface.Name); known && c.Queue >= n {
		return nil, fmt.Errorf("xsk: %s has no queue %d: it has %d, counted from 0 (`ethtool -l %s`)", iface.Name, c.Queue, n, iface.Name)
	}
	s := &Socket{conf: c, ifName: iface.Name, fd: -1, wakeFD: -1, rxPool: newRxPool(l), txPool: newTxPool(l)}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if s.fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, explain("socket", err, c, iface.Name)
	}
	if s.wakeFD, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("xsk: eventfd: %w", err)
	}
	if err := s.makeMemory(l); err != nil {
		return nil, explain("UMEM", err, c, iface.Name)
	}
	if err := s.makeRings(l); err != nil {
		return nil, explain("rings", err, c, iface.Name)
	}
	s.options(l)
	// Before bind, so that a zero-copy driver finds frames when it starts its queue.
	s.fillAll(l)
	if err := s.bind(); err != nil {
		return nil, explain("bind", err, c, iface.Name)
	}
	if s.mode, err = modeOf(s.fd); err != nil {
		return nil, explain("mode", err, c, iface.Name)
	}
	return s, nil
}

// Queues returns how many receive queues an interface has, if its driver tells.
func Queues(ifName string) (n int, known bool) {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return 0, false
	}
	defer e.Close()
	ch, err := e.GetChannels(ifName)
	if err != nil {
		return 0, false
	}
	n = int(ch.CombinedCount + ch.RxCount)
	return n, n > 0
}

func (s *Socket) makeMemory(l layout) (err error) {
	s.umem, err = unix.Mmap(-1, 0, l.bytes(), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return err
	}
	if poisoned {
		poisonFrame(s.umem[l.txBase():])
	}
	return registerUMEM(s.fd, s.umem, l.frameSize)
}

func (s *Socket) makeRings(l layout) error {
	// Fill is twice as large as its content can be: the kernel shows what it took
	// off a little after it hands the frames over, and they may be back by then.
	fill := ringSize(2 * l.rxFrames)
	rx := ringSize(l.rxFrames)
	tx := ringSize(l.slots * l.slotFrames)
	for opt, size := range map[int]uint32{
		unix.XDP_UMEM_FILL_RING: fill, unix.XDP_UMEM_COMPLETION_RING: tx,
		unix.XDP_RX_RING: rx, unix.XDP_TX_RING: tx,
	} {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_XDP, opt, int(size)); err != nil {
			return err
		}
	}
	off, err := mmapOffsets(s.fd)
	if err != nil {
		return err
	}
	var errs [4]error
	s.fill.shared, s.maps[0], errs[0] = sharedRing[uint64](s.fd, unix.XDP_UMEM_PGOFF_FILL_RING, off.Fr, fill)
	s.done.shared, s.maps[1], errs[1] = sharedRing[uint64](s.fd, unix.XDP_UMEM_PGOFF_COMPLETION_RING, off.Cr, tx)
	s.rx.shared, s.maps[2], errs[2] = sharedRing[unix.XDPDesc](s.fd, unix.XDP_PGOFF_RX_RING, off.Rx, rx)
	s.tx.shared, s.maps[3], errs[3] = sharedRing[unix.XDPDesc](s.fd, unix.XDP_PGOFF_TX_RING, off.Tx, tx)
	return errors.Join(errs[:]...)
}

// busyBudget is how many packets one round of busy polling takes: NAPI's own.
const busyBudget = 64

// options sets what makes the socket faster where the kernel has it, and is no
// error where it has not.
func (s *Socket) options(l layout) {
	// Linux 6.17: descriptors that one Kick moves in copy mode; 32 without it.
	_ = unix.SetsockoptInt(s.fd, unix.SOL_XDP, unix.XDP_MAX_TX_SKB_BUDGET, len(s.tx.entries))
	// In copy mode packets in the driver's queue count against the send buffer.
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 2*l.slots*l.slotSize())
	if s.conf.BusyPoll == 0 {
		return
	}
	us := max(1, int(s.conf.BusyPoll/time.Microsecond))
	for _, o := range [][2]int{{unix.SO_PREFER_BUSY_POLL, 1}, {unix.SO_BUSY_POLL, us}, {unix.SO_BUSY_POLL_BUDGET, busyBudget}} {
		if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, o[0], o[1]) != nil {
			_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_PREFER_BUSY_POLL, 0)
			_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_BUSY_POLL, 0)
			return
		}
	}
	s.busy = time.Duration(us) * time.Microsecond
}

// bindPatience is how long bind waits for a queue: after a close the kernel frees
// it from a work item.
const bindPatience = 1500 * time.Millisecond

func (s *Socket) bind() error {
	sa := &unix.SockaddrXDP{
		Flags: unix.XDP_USE_NEED_WAKEUP, Ifindex: uint32(s.conf.Ifindex), QueueID: uint32(s.conf.Queue),
	}
	switch s.conf.Mode {
	case Copy:
		sa.Flags |= unix.XDP_COPY
	case ZeroCopy:
		sa.Flags |= unix.XDP_ZEROCOPY
	}
	if s.conf.SG {
		sa.Flags |= unix.XDP_USE_SG
	}
	for deadline := time.Now().Add(bindPatience); ; time.Sleep(time.Millisecond) {
		err := unix.Bind(s.fd, sa)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
	}
}

func modeOf(fd int) (Mode, error) {
	opts, err := getsockopt[uint32](fd, unix.XDP_OPTIONS)
	if err != nil {
		return Auto, err
	}
	if opts&unix.XDP_OPTIONS_ZEROCOPY != 0 {
		return ZeroCopy, nil
	}
	return Copy, nil
}
