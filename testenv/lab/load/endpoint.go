// SPDX-License-Identifier: Apache-2.0

package load

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/softroce/softroce-xdp/rocev2"
)

// Config describes an endpoint.
type Config struct {
	// Local is the address to listen on. It must be one of the host's own, not the
	// wildcard: the ICRC covers it.
	Local netip.Addr

	// Do opens sockets; it is Host.Do of a topology. nil opens them right here.
	Do func(func() error) error

	// Drop is the share of RDMA WRITE packets, 0 to 1, that the endpoint discards on
	// arrival as if they had been lost on the way.
	Drop float64

	// Corrupt is the share of packets that it damages after computing their ICRC.
	Corrupt float64

	// Seed of the choice which packets are dropped and damaged.
	Seed uint64
}

// Counters of an endpoint, over all its peers.
type Counters struct {
	Packets   uint64 // UDP datagrams received on port 4791
	BadICRC   uint64
	Malformed uint64 // packets that are too short, or have lengths that do not fit
	Dropped   uint64 // discarded on purpose (Config.Drop)
	Corrupted uint64 // damaged on purpose (Config.Corrupt)
	Unclaimed uint64 // valid, but for nobody: ACKs of no flow, control packets
	CNPs      uint64
	SendFails uint64 // ACKs and NAKs that the kernel did not take
}

// Endpoint is one address of a host: it answers RDMA WRITEs from anyone and sends
// to any number of destinations. Its methods may be called concurrently.
type Endpoint struct {
	cfg  Config
	sock *socket
	done chan struct{}

	mu       sync.Mutex
	closed   bool
	err      error // reason why receiving ended
	count    Counters
	rng      *rand.Rand
	inbound  map[peer]*responder
	outbound map[peer]*flow
	cname    map[netip.Addr]*net.UDPAddr // destinations of ACKs; saves an allocation each
}

// peer names one queue pair of one address.
type peer struct {
	addr netip.Addr
	qpn  uint32
}

// Open starts an endpoint on UDP port 4791 of cfg.Local.
func Open(cfg Config) (*Endpoint, error) {
	if !cfg.Local.IsValid() || cfg.Local.IsUnspecified() {
		return nil, errors.New("load: the endpoint needs one of the host's own addresses; the ICRC covers it")
	}
	cfg.Local = cfg.Local.Unmap()
	if !share(cfg.Drop) || !share(cfg.Corrupt) {
		return nil, fmt.Errorf("load: drop %v and corrupt %v must be shares, 0 to 1", cfg.Drop, cfg.Corrupt)
	}
	if cfg.Do == nil {
		cfg.Do = func(f func() error) error { return f() }
	}
	ep := &Endpoint{
		cfg:      cfg,
		done:     make(chan struct{}),
		rng:      rand.New(rand.NewPCG(cfg.Seed, 0x5352)),
		inbound:  map[peer]*responder{},
		outbound: map[peer]*flow{},
		cname:    map[netip.Addr]*net.UDPAddr{},
	}
	err := cfg.Do(func() (err error) {
		ep.sock, err = listen(netip.AddrPortFrom(cfg.Local, rocev2.UDPPort), 1<<20, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	go ep.receive()
	return ep, nil
}

func share(f float64) bool { return f >= 0 && f <= 1 }

// Close stops the endpoint. It returns the error that had ended reception before,
// if there was one.
func (ep *Endpoint) Close() error {
	ep.mu.Lock()
	ep.closed = true
	ep.mu.Unlock()
	ep.sock.conn.Close()
	<-ep.done
	return ep.err
}

// Counters returns the endpoint's counters.
func (ep *Endpoint) Counters() Counters {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return ep.count
}

// Received returns what arrived, by source address, summed over its queue pairs.
func (ep *Endpoint) Received() map[netip.Addr]Received {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	out := map[netip.Addr]Received{}
	for p, r := range ep.inbound {
		sum := out[p.addr]
		sum.Packets += r.count.Packets
		sum.Bytes += r.count.Bytes
		sum.Messages += r.count.Messages
		sum.Ahead += r.count.Ahead
		sum.Duplicates += r.count.Duplicates
		sum.Invalid += r.count.Invalid
		sum.Mismatches += r.count.Mismatches
		sum.ACKs += r.count.ACKs
		sum.NAKs += r.count.NAKs
		out[p.addr] = sum
	}
	return out
}

// receive reads until the socket is closed.
func (ep *Endpoint) receive() {
	defer close(ep.done)
	const room = 40 + udpHeaderLen // for the headers that the socket hides
	const datagram = maxPMTU + 256
	in := make([]ipv4.Message, 2*batchSize)
	bufs := make([][]byte, len(in))
	for i := range in {
		bufs[i] = make([]byte, room+datagram)
		in[i].Buffers = [][]byte{bufs[i][headerLen(ep.cfg.Local):]}
	}
	out := newOutbox(128)
	for {
		n, err := ep.sock.batch.ReadBatch(in, 0)
		if err != nil {
			ep.mu.Lock()
			if !ep.closed && !transient(err) {
				ep.err = fmt.Errorf("load: receive on %s: %w", ep.sock.local, err)
			}
			stop := ep.closed || ep.err != nil
			ep.mu.Unlock()
			if stop {
				return
			}
			continue
		}
		now := time.Now()
		ep.mu.Lock()
		for i := range n {
			from := unmap(in[i].Addr.(*net.UDPAddr).AddrPort())
			head := putHeaders(bufs[i], from, ep.sock.local, in[i].N)
			ep.packet(bufs[i][:head+in[i].N], from.Addr(), now, out)
			if out.full() {
				ep.answer(out)
			}
		}
		ep.answer(out)
		ep.mu.Unlock()
	}
}

func (ep *Endpoint) answer(out *outbox) {
	n := out.n
	sent, err := out.flush(ep.sock)
	if err != nil {
		ep.count.SendFails += uint64(n - sent)
	}
}

// packet handles one IP datagram.
func (ep *Endpoint) packet(b []byte, from netip.Addr, now time.Time, out *outbox) {
	ep.count.Packets++
	p, err := rocev2.ParseIP(b)
	if err != nil {
		ep.count.Malformed++
		return
	}
	h := p.BTH()
	if h.DestQP() == rocev2.ControlQPN {
		// HELLO of a host whose peer is not attached. Its IP header is not the one
		// that b was given, so its ICRC cannot be judged here.
		ep.count.Unclaimed++
		return
	}
	if p.VerifyICRC() != nil {
		ep.count.BadICRC++
		return
	}
	id := peer{from, h.DestQP()}
	switch info := h.Opcode().Info(); {
	case info.Class == rocev2.ClassRC && info.Operation == rocev2.OperationWrite:
		ep.request(id, &p, out)
	case h.Opcode() == rocev2.RCAck && ep.outbound[id] != nil:
		ep.outbound[id].answered(h.PSN(), p.AETH().Syndrome(), now)
	case h.Opcode() == rocev2.CNP:
		ep.count.CNPs++
	default:
		ep.count.Unclaimed++
	}
}

func (ep *Endpoint) request(id peer, p *rocev2.Packet, out *outbox) {
	if ep.cfg.Drop > 0 && ep.rng.Float64() < ep.cfg.Drop {
		ep.count.Dropped++
		return
	}
	r := ep.inbound[id]
	if r == nil {
		r = newResponder(id.qpn)
		ep.inbound[id] = r
	}
	h := p.BTH()
	a := r.handle(request{
		opcode: h.Opcode(), psn: h.PSN(), ackReq: h.AckReq(),
		reth: p.RETH(), payload: p.Payload(),
	})
	if !a.send {
		return
	}
	to := ep.cname[id.addr]
	if to == nil {
		to = net.UDPAddrFromAddrPort(netip.AddrPortFrom(id.addr, rocev2.UDPPort))
		ep.cname[id.addr] = to
	}
	_, err := out.add(&rocev2.Datagram{
		Src: ep.cfg.Local, Dst: id.addr, SrcPort: ep.sock.local.Port(),
		Opcode: rocev2.RCAck, DestQP: id.qpn, PSN: a.psn,
		Syndrome: a.syndrome, MSN: a.msn,
	}, to)
	if err != nil {
		ep.count.SendFails++
	}
}
