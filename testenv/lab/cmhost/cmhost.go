// SPDX-License-Identifier: Apache-2.0

// Package cmhost runs a connection manager (rocev2/cm) on a host of rxepeer: it carries its
// messages in RoCEv2 datagrams between queue pairs 1, so that programs in the machines connect by
// librdmacm and the kernel's rdma_cm.
//
// Datagrams leave by a UDP socket and arrive at a packet socket, next to the kernel stack. On an
// attached interface the data plane passes those to queue pair 1 to the kernel stack.
package cmhost

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// Host is a connection manager at the addresses of a host. Its methods may be used side by side.
type Host struct {
	// Loss is how many of 1000 messages are dropped in each direction.
	Loss atomic.Int32

	manager *cm.Manager
	start   time.Time
	calls   chan func()
	events  chan cm.Event
	stop    chan struct{}
	done    sync.WaitGroup

	packets *os.File
	sockets map[netip.Addr]*net.UDPConn
	psn     rocev2.PSN
	errs    []error // of the loop, read after it has ended
}

// eventBuffer is how many events wait for the test.
const eventBuffer = 1024

// Open starts a connection manager at all addresses of the host. It is alone there.
func Open(host *rxepeer.Host, cfg cm.Config) (*Host, error) {
	cfg.Alone = true
	h := &Host{
		manager: cm.New(cfg), start: time.Now().Add(-time.Second), calls: make(chan func()), stop: make(chan struct{}),
		events: make(chan cm.Event, eventBuffer), sockets: map[netip.Addr]*net.UDPConn{},
	}
	err := host.Do(func() error { return h.open(host) })
	if err != nil {
		return nil, errors.Join(err, h.closeSockets())
	}
	arrived := make(chan []byte, 64)
	h.done.Add(2)
	go h.read(arrived)
	go h.loop(arrived)
	return h, nil
}

// Close ends the manager. Connections are not disconnected.
func (h *Host) Close() error {
	close(h.stop)
	err := h.closeSockets()
	h.done.Wait()
	return errors.Join(append(h.errs, err)...)
}

// Events are those of the manager.
func (h *Host) Events() <-chan cm.Event { return h.events }

// Do calls the manager.
func (h *Host) Do(f func(m *cm.Manager, now int64) error) error {
	result := make(chan error, 1)
	select {
	case h.calls <- func() { result <- f(h.manager, h.now()) }:
		return <-result
	case <-h.stop:
		return os.ErrClosed
	}
}

func (h *Host) now() int64 { return int64(time.Since(h.start)) }

// loop owns the manager.
func (h *Host) loop(arrived <-chan []byte) {
	defer h.done.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if at, ok := h.manager.Next(); ok {
			timer.Reset(time.Duration(max(at-h.now(), 0)))
		}
		select {
		case f := <-h.calls:
			f()
		case frame := <-arrived:
			h.receive(frame)
		case <-timer.C:
			h.manager.Expire(h.now())
		case <-h.stop:
			return
		}
		for _, a := range h.manager.Take() {
			switch a := a.(type) {
			case cm.Send:
				if !h.lost() {
					h.errs = append(h.errs, h.send(a))
				}
			case cm.Event:
				select {
				case h.events <- a:
				default:
					h.errs = append(h.errs, errors.New("cmhost: nobody takes the events"))
				}
			}
		}
	}
}

func (h *Host) lost() bool { return rand.Int32N(1000) < h.Loss.Load() }

// receive passes the MAD of a frame to the manager. Other frames are the kernel stack's.
func (h *Host) receive(frame []byte) {
	p, err := rocev2.ParseFrame(frame)
	if err != nil || p.BTH().DestQP() != mad.QPN || p.VerifyICRC() != nil {
		return
	}
	deth := p.DETH()
	if deth == nil || deth.QKey() != mad.QKey || h.sockets[p.Dst()] == nil || h.lost() {
		return
	}
	h.manager.Receive(h.now(), p.Src(), p.Dst(), p.Payload())
}

func (h *Host) send(s cm.Send) error {
	h.psn = h.psn.Add(1)
	d := rocev2.Datagram{
		Src: s.Local, Dst: s.Peer, SrcPort: rocev2.UDPPort, Opcode: rocev2.UDSendOnly, DestQP: mad.QPN, SrcQP: mad.QPN,
		QKey: mad.QKey, PSN: h.psn, Payload: s.MAD,
	}
	b, err := d.AppendTo(nil)
	if err != nil {
		return err
	}
	head := 20 + 8 // the kernel writes the same IP and UDP headers
	if s.Local.Is6() {
		head = 40 + 8
	}
	_, err = h.sockets[s.Local].WriteToUDPAddrPort(b[head:], netip.AddrPortFrom(s.Peer, rocev2.UDPPort))
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, net.ErrClosed) {
		return nil // as if it were lost
	}
	return err
}

func (h *Host) read(arrived chan<- []byte) {
	defer h.done.Done()
	buf := make([]byte, 65536)
	for {
		n, err := h.packets.Read(buf)
		if err != nil {
			return // closed
		}
		select {
		case arrived <- append([]byte(nil), buf[:n]...):
		case <-h.stop:
			return
		}
	}
}
