// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/engine"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Lengths of the headers of a UD packet.
const (
	etherLen = 14
	ipLen    = 20
	udpLen   = 8
	bthLen   = rocev2.BTHLen
	dethLen  = 8
	icrcLen  = rocev2.ICRCLen
)

// sourceQP is the destination QP of the datagrams, which nobody has.
const sourceQP = 0x1234

// socketSource sends UD datagrams from a UDP socket of the kernel stack.
type socketSource struct {
	conn  *net.UDPConn
	batch *ipv4.PacketConn
	msgs  []ipv4.Message
	psn   uint32
	open  bool // nothing pushes back: it paces itself
	end   chan struct{}
	done  chan error
}

const socketBatch = 16

func newSocketSource(from, to *topo.Host, payload int, open bool) (*socketSource, error) {
	s := &socketSource{open: open}
	err := from.Do(func() (err error) {
		s.conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from.IPv4(), 0)))
		return err
	})
	if err != nil {
		return nil, err
	}
	raw, err := s.conn.SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) {
			// As much as rdma_rxe lets a QP have in the pacer: 64 packets.
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 64*(payload+1024)))
		}), err)
	}
	if err != nil {
		s.conn.Close()
		return nil, err
	}
	s.batch = ipv4.NewPacketConn(s.conn)
	for range socketBatch {
		b := make([]byte, bthLen+dethLen+payload+icrcLen)
		b[0] = 0x64 // UD SEND only
		binary.BigEndian.PutUint16(b[2:], 0xffff)
		binary.BigEndian.PutUint32(b[4:], sourceQP)
		s.msgs = append(s.msgs, ipv4.Message{Buffers: [][]byte{b}, Addr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.IPv4(), rocev2.UDPPort))})
	}
	return s, nil
}

func (s *socketSource) start(offered uint64) {
	s.end, s.done = make(chan struct{}), make(chan error, 1)
	go func() { s.done <- s.run(offered) }()
}

func (s *socketSource) run(offered uint64) error {
	bits := float64(8 * (len(s.msgs[0].Buffers[0]) + udpLen + ipLen + etherLen))
	due, last := 0.0, time.Now()
	for {
		select {
		case <-s.end:
			return nil
		default:
		}
		n := socketBatch
		if s.open {
			now := time.Now()
			due = min(due+now.Sub(last).Seconds()*float64(offered)/bits, 10e-3*float64(offered)/bits+2)
			last = now
			if n = min(n, int(due)); n == 0 {
				time.Sleep(500 * time.Microsecond)
				continue
			}
			due -= float64(n)
		}
		for i := range n {
			binary.BigEndian.PutUint32(s.msgs[i].Buffers[0][8:], (s.psn+uint32(i))&0xffffff)
		}
		sent, err := s.batch.WriteBatch(s.msgs[:n], 0)
		s.psn = (s.psn + uint32(max(sent, 0))) & 0xffffff
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			return err
		}
	}
}

func (s *socketSource) stop() error  { close(s.end); return <-s.done }
func (s *socketSource) close() error { return s.conn.Close() }

// engineSource sends UD datagrams from the engine.
type engineSource struct {
	dev  *nic.Device
	cq   verbs.CQ
	qp   verbs.QP
	wr   verbs.SendWR
	undo []func() error
	end  context.CancelFunc
	done chan error
}

const engineDepth = 64

func newEngineSource(o loader.Options, from, to *topo.Host, payload int) (s *engineSource, err error) {
	s = &engineSource{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	later := func(f func() error) { s.undo = append(s.undo, f) }
	err = from.Do(func() (err error) {
		s.dev, err = engine.Open(topo.IfName, o, nic.Options{})
		return err
	})
	if err != nil {
		return s, err
	}
	later(s.dev.Close)
	pd, err := s.dev.AllocPD()
	if err != nil {
		return s, err
	}
	later(pd.Free)
	memory, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return s, err
	}
	later(func() error { return unix.Munmap(memory) })
	var region verbs.MR
	if region, err = pd.RegMR(memory, engines.Access); err != nil {
		return s, err
	}
	later(region.Deregister)
	if s.cq, err = s.dev.CreateCQ(2 * engineDepth); err != nil {
		return s, err
	}
	later(s.cq.Destroy)
	s.qp, err = pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: s.cq, RecvCQ: s.cq, MaxSend: engineDepth, MaxRecv: 1})
	if err != nil {
		return s, err
	}
	later(s.qp.Destroy)
	if err = verbs.Connect(s.qp, verbs.Endpoint{QKey: 7}, verbs.Endpoint{}, verbs.Attr{}); err != nil {
		return s, err
	}
	ah, err := pd.CreateAH(verbs.AddressVector{Src: from.IPv4(), Dst: to.IPv4()})
	if err != nil {
		return s, err
	}
	later(ah.Destroy)
	s.wr = verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, AH: ah, RemoteQPN: sourceQP, RemoteQKey: 7,
		SGL: []verbs.SGE{{Addr: region.VA(), Len: uint32(payload), LKey: region.LKey()}}}
	return s, nil
}

func (s *engineSource) start(uint64) {
	ctx, end := context.WithCancel(context.Background())
	s.end, s.done = end, make(chan error, 1)
	go func() { s.done <- s.run(ctx) }()
}

func (s *engineSource) run(ctx context.Context) error {
	var out [engineDepth]verbs.Completion
	for under := 0; ; {
		for ; under < engineDepth && ctx.Err() == nil; under++ {
			if err := s.qp.PostSend(&s.wr); err != nil {
				return err
			}
		}
		if under == 0 {
			return nil
		}
		wait, cancel := context.WithTimeout(context.Background(), patience)
		err := s.cq.Wait(wait, false)
		cancel()
		if err != nil {
			return fmt.Errorf("the engine's datagrams do not leave: %w", err)
		}
		n := s.cq.Poll(out[:])
		for _, c := range out[:n] {
			if c.Status != verbs.StatusSuccess {
				return fmt.Errorf("datagram: %s", c.Status)
			}
		}
		under -= n
	}
}

func (s *engineSource) stop() error { s.end(); return <-s.done }

func (s *engineSource) close() error {
	var errs []error
	for i := len(s.undo) - 1; i >= 0; i-- {
		errs = append(errs, s.undo[i]())
	}
	return errors.Join(errs...)
}

// pacerSink receives, and watches the order by PSN.
type pacerSink struct {
	conn   *net.UDPConn
	behind atomic.Uint64
	done   chan struct{}
}

func newSink(h *topo.Host) (*pacerSink, error) {
	s := &pacerSink{done: make(chan struct{})}
	err := h.Do(func() (err error) {
		s.conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(h.IPv4(), rocev2.UDPPort)))
		return err
	})
	if err != nil {
		return nil, err
	}
	go s.run()
	return s, nil
}

func (s *pacerSink) run() {
	defer close(s.done)
	msgs := make([]ipv4.Message, 64)
	for i := range msgs {
		msgs[i].Buffers = [][]byte{make([]byte, bthLen)} // the rest is of no interest
	}
	batch := ipv4.NewPacketConn(s.conn)
	last, any := uint32(0), false
	for {
		n, err := batch.ReadBatch(msgs, 0)
		if err != nil {
			return
		}
		for _, m := range msgs[:n] {
			b := m.Buffers[0]
			if m.N < bthLen || binary.BigEndian.Uint32(b[4:])&0xffffff != sourceQP {
				continue
			}
			psn := binary.BigEndian.Uint32(b[8:]) & 0xffffff
			if any && (psn-last)&0xffffff > 0x800000 {
				s.behind.Add(1)
				continue
			}
			last, any = psn, true
		}
	}
}

func (s *pacerSink) reset()            { s.behind.Store(0) }
func (s *pacerSink) reordered() uint64 { return s.behind.Load() }
func (s *pacerSink) close() error {
	err := s.conn.Close()
	<-s.done
	return err
}
