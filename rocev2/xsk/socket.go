// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Socket is an AF_XDP socket on one queue. The package comment says which methods
// may run at the same time.
type Socket struct {
	conf   Config
	ifName string
	mode   Mode
	busy   time.Duration

	umem []byte
	maps [4][]byte // memory of the rings

	fill    producer[uint64]
	rx      consumer[unix.XDPDesc]
	rxPool  rxPool
	reserve reserve

	tx     producer[unix.XDPDesc]
	done   consumer[uint64]
	txPool txPool

	bad atomic.Uint64

	// Argument of poll in Wait, kept so that it does not allocate.
	wait     [2]unix.PollFd
	drainBuf [8]byte

	// gate keeps what other goroutines need until they are out: they hold it for
	// reading, Close for writing.
	gate   sync.RWMutex
	closed bool
	fd     int
	wakeFD int // eventfd that Wake signals, or -1
}

// FD returns the descriptor, to put into an XSKMAP; -1 after Close.
func (s *Socket) FD() int {
	s.gate.RLock()
	defer s.gate.RUnlock()
	return s.fd
}

// Mode returns the mode in force, Copy or ZeroCopy.
func (s *Socket) Mode() Mode { return s.mode }

// BusyPoll returns for how long a system call polls the driver, 0 where busy
// polling is off: not asked for, no privilege (CAP_NET_ADMIN), or an old kernel.
// A driver whose queue has no NAPI id ignores it, which the kernel does not tell.
func (s *Socket) BusyPoll() time.Duration { return s.busy }

// Interface returns the name that the interface had at Open.
func (s *Socket) Interface() string { return s.ifName }

// Queue returns the queue that the socket is bound to.
func (s *Socket) Queue() int { return s.conf.Queue }

// Stats are counters since Open, in packets or descriptors.
type Stats struct {
	RxDropped      uint64 // packets without a frame to put them in, or too long
	RxRingFull     uint64 // packets that found the rx ring full
	RxFillEmpty    uint64 // times that the kernel found no frame
	RxInvalidDescs uint64 // invalid descriptors of the fill ring
	TxInvalidDescs uint64 // invalid descriptors of the tx ring
	TxRingEmpty    uint64 // times that the kernel found nothing to send
	BadDescs       uint64 // descriptors from the kernel that were not in its hands: a fault
}

// Stats reads the kernel's counters (XDP_STATISTICS).
func (s *Socket) Stats() (Stats, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return Stats{}, ErrClosed
	}
	k, err := getsockopt[unix.XDPStatistics](s.fd, unix.XDP_STATISTICS)
	if err != nil {
		return Stats{}, fmt.Errorf("xsk: statistics: %w", err)
	}
	return Stats{
		RxDropped: k.Rx_dropped, RxRingFull: k.Rx_ring_full, RxFillEmpty: k.Rx_fill_ring_empty_descs,
		RxInvalidDescs: k.Rx_invalid_descs, TxInvalidDescs: k.Tx_invalid_descs, TxRingEmpty: k.Tx_ring_empty_descs,
		BadDescs: s.bad.Load(),
	}, nil
}

// Close lets go of the queue, which is free for another socket some milliseconds
// later (Open waits for it). Packets that were submitted and not yet kicked are
// lost. Slices that Packet and Frame lent must not be touched any more: their
// memory is unmapped. Later calls do nothing.
func (s *Socket) Close() error {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.closed {
		return nil
	}
	return s.release()
}

// release is Close, for half-open sockets too.
func (s *Socket) release() error {
	s.closed = true
	var errs []error
	// The mappings hold the socket: as long as one is there the queue stays busy.
	for i, m := range s.maps {
		if m != nil {
			errs = append(errs, unix.Munmap(m))
		}
		s.maps[i] = nil
	}
	s.fill, s.rx, s.tx, s.done = producer[uint64]{}, consumer[unix.XDPDesc]{}, producer[unix.XDPDesc]{}, consumer[uint64]{}
	if s.fd >= 0 {
		errs = append(errs, unix.Close(s.fd))
	}
	if s.wakeFD >= 0 {
		errs = append(errs, unix.Close(s.wakeFD))
	}
	s.fd, s.wakeFD = -1, -1
	if s.umem != nil {
		errs = append(errs, unix.Munmap(s.umem))
	}
	s.umem = nil
	return errors.Join(errs...)
}
