// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
)

// Flow describes what to send to one destination. The zero values stand for the
// defaults; without Bytes and Duration a flow lasts until its context ends.
type Flow struct {
	To       netip.Addr
	Bytes    uint64        // payload to send, rounded up to whole messages
	Duration time.Duration // time in which new messages are begun

	PMTU         int // payload per packet: 256, 512, 1024 (default), 2048, 4096
	MessageBytes int // size of one RDMA WRITE; default 64 packets
	Window       int // packets without ACK; default 256
	AckEvery     int // AckReq on every so many packets of a message; default 16
	TOS          int // type of service or traffic class, with the ECN bits

	// SendBuffer of the socket in bytes of kernel memory, about 2.3 kB a packet of
	// 1 kB. The default holds the window, so that the window is what limits the
	// flow; a smaller one lets the sender wait for the host's own qdisc.
	SendBuffer int

	MinRTO   time.Duration // least retransmission timeout; default 67 ms
	GiveUp   time.Duration // fail after so long without any ACK; default 5 s
	Interval time.Duration // interval of the time series; default 100 ms

	// OnSample is called with every element of the time series as it is taken.
	OnSample func(Sample)
}

// Sample is one interval of a flow's time series.
type Sample struct {
	At          time.Duration `json:"at_ns"` // end of the interval, since the flow began
	Bytes       uint64        `json:"bytes"` // payload acknowledged in it
	GoodputBPS  float64       `json:"goodput_bps"`
	Packets     uint64        `json:"packets"` // sent in it, first or again
	Retransmits uint64        `json:"retransmits"`
	RTTMin      time.Duration `json:"rtt_min_ns"` // 0 if no ACK measured one
	RTTMean     time.Duration `json:"rtt_mean_ns"`
	RTTMax      time.Duration `json:"rtt_max_ns"`
	Outstanding uint64        `json:"outstanding"` // packets without ACK at its end
}

// Report is what a flow did.
type Report struct {
	To          netip.Addr    `json:"to"`
	QPN         uint32        `json:"qpn"`
	Elapsed     time.Duration `json:"elapsed_ns"`
	Bytes       uint64        `json:"bytes"` // payload acknowledged
	GoodputBPS  float64       `json:"goodput_bps"`
	Packets     uint64        `json:"packets"`
	Retransmits uint64        `json:"retransmits"`
	Timeouts    uint64        `json:"timeouts"`
	NAKs        uint64        `json:"naks"`
	PushBacks   uint64        `json:"push_backs"` // times that a full qdisc refused a packet
	RTTMin      time.Duration `json:"rtt_min_ns"`
	RTTMean     time.Duration `json:"rtt_mean_ns"`
	RTTMax      time.Duration `json:"rtt_max_ns"`
	Samples     []Sample      `json:"samples,omitempty"`
}

// defaultMinRTO is the timeout code 14 of IBTA 9.7.6.1.3, which most RDMA software uses.
const defaultMinRTO = 4096 * time.Nanosecond << 14

const pushBackPause = 500 * time.Microsecond

func (fl *Flow) check(local netip.Addr) error {
	fl.To = fl.To.Unmap()
	if !fl.To.IsValid() || fl.To.Is4() != local.Is4() {
		return fmt.Errorf("load: destination %s and source %s must be of one family", fl.To, local)
	}
	setDefault(&fl.PMTU, 1024)
	setDefault(&fl.MessageBytes, 64*fl.PMTU)
	setDefault(&fl.Window, 256)
	setDefault(&fl.AckEvery, min(16, fl.Window))
	setDefault(&fl.SendBuffer, fl.Window*(2*fl.PMTU+1024))
	setDefault(&fl.MinRTO, defaultMinRTO)
	setDefault(&fl.GiveUp, 5*time.Second)
	setDefault(&fl.Interval, 100*time.Millisecond)
	switch {
	case fl.PMTU < 256 || fl.PMTU > maxPMTU || fl.PMTU&(fl.PMTU-1) != 0:
		return fmt.Errorf("load: PMTU %d; use 256, 512, 1024, 2048 or 4096", fl.PMTU)
	case fl.MessageBytes < 1 || fl.MessageBytes > 1<<31:
		return fmt.Errorf("load: message of %d bytes; an RDMA WRITE carries 1 byte to 2 GB", fl.MessageBytes)
	case fl.Window < 1 || fl.Window > 1<<20:
		return fmt.Errorf("load: window of %d packets; use 1 to 1048576", fl.Window)
	case fl.AckEvery < 1 || fl.AckEvery > fl.Window:
		return fmt.Errorf("load: AckReq every %d packets; use 1 up to the window of %d, or the sender would wait for an ACK that nobody sends", fl.AckEvery, fl.Window)
	case fl.Duration < 0 || fl.MinRTO < 0 || fl.GiveUp < 0 || fl.Interval < time.Millisecond:
		return errors.New("load: negative time, or an interval below 1 ms")
	}
	return nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// flow is a running Flow.
type flow struct {
	Flow
	ep   *Endpoint
	sock *socket
	addr *net.UDPAddr
	wake chan struct{} // an ACK or NAK came

	refused bool // the host took no packet when it was sent last; run's

	mu        sync.Mutex
	s         *sender
	fatal     error
	packets   uint64
	pushBacks uint64
	total     rtts
	current   rtts // RTTs of the running interval
	samples   []Sample
	last      Report // report at the last sample
}

// rtts sums up round-trip times.
type rtts struct {
	n             uint64
	sum, min, max time.Duration
}

func (r *rtts) add(d time.Duration) {
	if r.n == 0 || d < r.min {
		r.min = d
	}
	r.max = max(r.max, d)
	r.sum += d
	r.n++
}

func (r *rtts) mean() time.Duration {
	if r.n == 0 {
		return 0
	}
	return r.sum / time.Duration(r.n)
}

// Send sends a flow and returns when everything it sent was acknowledged. When ctx
// ends, the message being sent is the last. The report is valid with an error, too.
func (ep *Endpoint) Send(ctx context.Context, fl Flow) (Report, error) {
	if err := fl.check(ep.cfg.Local); err != nil {
		return Report{}, err
	}
	f := &flow{Flow: fl, ep: ep, wake: make(chan struct{}, 1)}
	f.addr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(fl.To, rocev2.UDPPort))
	qpn, err := f.open()
	if err != nil {
		return Report{}, err
	}
	defer f.sock.conn.Close()
	id := peer{fl.To, qpn}
	ep.mu.Lock()
	ep.outbound[id] = f
	ep.mu.Unlock()
	defer func() {
		ep.mu.Lock()
		delete(ep.outbound, id)
		ep.mu.Unlock()
	}()

	start := time.Now()
	ticks := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() { f.sample(start, ticks) })
	err = f.run(ctx, start)
	elapsed := time.Since(start)
	close(ticks)
	sampling.Wait()

	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.report()
	r.Elapsed = elapsed
	r.GoodputBPS = float64(r.Bytes) * 8 / elapsed.Seconds()
	r.RTTMin, r.RTTMean, r.RTTMax = f.total.min, f.total.mean(), f.total.max
	r.Samples = f.samples
	return r, err
}

// open draws a QP number and opens a socket on the source port that belongs to it.
func (f *flow) open() (qpn uint32, err error) {
	for range 100 {
		qpn = rand.Uint32N(rocev2.ControlQPN-2) + 2 // not 0 and 1, the management QPs
		port := rocev2.SourcePort(rocev2.FlowLabel(qpn, qpn))
		err = f.ep.cfg.Do(func() (err error) {
			f.sock, err = listen(netip.AddrPortFrom(f.ep.cfg.Local, port), f.SendBuffer, f.TOS)
			return err
		})
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	f.s = newSender(qpn, f.PMTU, f.MessageBytes, f.Window, f.AckEvery, f.MinRTO)
	if f.Bytes > 0 {
		f.s.end = (f.Bytes + uint64(f.MessageBytes) - 1) / uint64(f.MessageBytes) * f.s.perMessage
	}
	return qpn, err
}

// run is the sending loop.
func (f *flow) run(ctx context.Context, start time.Time) error {
	stop := start.Add(math.MaxInt64)
	if f.Duration > 0 {
		stop = start.Add(f.Duration)
	}
	ctxDone := ctx.Done()
	out := newOutbox(headerLen(f.To) + rocev2.BTHLen + rocev2.RETHLen + f.PMTU + 3 + rocev2.ICRCLen)
	rng := rand.New(rand.NewPCG(f.ep.cfg.Seed, uint64(f.s.qpn)))
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := time.Now()
		f.mu.Lock()
		if !now.Before(stop) || ctx.Err() != nil {
			f.s.finish()
		}
		if f.fatal != nil || f.s.done() {
			defer f.mu.Unlock()
			return f.fatal
		}
		f.s.expire(now)
		if (f.s.una < f.s.high || f.refused) && now.Sub(f.s.moved) > f.GiveUp {
			f.mu.Unlock()
			return fmt.Errorf("load: no ACK from %s for %v; is a responder listening there, and does the path carry packets of %d bytes?",
				f.To, f.GiveUp, headerLen(f.To)+rocev2.BTHLen+rocev2.RETHLen+f.PMTU+rocev2.ICRCLen)
		}
		first, high := f.s.next, f.s.high
		n := 0
		for n < batchSize {
			if _, ok := f.s.take(now); !ok {
				break
			}
			n++
		}
		f.packets += uint64(n)
		wait := f.s.deadline()
		f.mu.Unlock()

		if n > 0 {
			if err := f.transmit(first, n, high, out, rng); err != nil {
				return err
			}
			continue
		}
		if wait.IsZero() || stop.After(now) && stop.Before(wait) {
			wait = stop
		}
		timer.Reset(time.Until(wait))
		select {
		case <-f.wake:
		case <-timer.C:
		case <-ctxDone:
			ctxDone = nil
		}
	}
}

// transmit sends packets [first, first+n).
func (f *flow) transmit(first uint64, n int, high uint64, out *outbox, rng *rand.Rand) error {
	for i := range uint64(n) {
		seg := f.s.segment(first + i) // reads only what never changes
		b, err := out.add(&rocev2.Datagram{
			Src: f.ep.cfg.Local, Dst: f.To, SrcPort: f.sock.local.Port(),
			Opcode: seg.opcode, DestQP: f.s.qpn, PSN: seg.psn, AckReq: seg.ackReq,
			VA: seg.va, RKey: rkeyOf(f.s.qpn), DMALen: uint32(f.MessageBytes),
			Payload: patternAt(f.s.qpn, seg.va, seg.length),
		}, f.addr)
		if err != nil {
			return err
		}
		if f.ep.cfg.Corrupt > 0 && rng.Float64() < f.ep.cfg.Corrupt {
			b[len(b)-rocev2.ICRCLen-1] ^= 0x10
			f.ep.mu.Lock()
			f.ep.count.Corrupted++
			f.ep.mu.Unlock()
		}
	}
	sent, err := out.flush(f.sock)
	f.refused = err != nil
	if err == nil {
		return nil
	}
	f.mu.Lock()
	f.s.unsend(first+uint64(sent), n-sent, high)
	f.packets -= uint64(n - sent)
	f.pushBacks++
	f.mu.Unlock()
	if transient(err) {
		time.Sleep(pushBackPause)
		return nil
	}
	if errors.Is(err, unix.EMSGSIZE) {
		return fmt.Errorf("load: packets of PMTU %d do not fit the path to %s; choose a smaller PMTU: %w", f.PMTU, f.To, err)
	}
	return fmt.Errorf("load: send to %s: %w", f.To, err)
}

// transient errors pass: a qdisc or the memory is full, an interface is down for a
// moment, an ICMP error arrived.
func transient(err error) bool {
	return errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EAGAIN) ||
		errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.ENETUNREACH) ||
		errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.EPROTO)
}

// answered handles an ACK or NAK.
func (f *flow) answered(psn rocev2.PSN, syndrome rocev2.Syndrome, now time.Time) {
	f.mu.Lock()
	switch code, isNAK := syndrome.NAK(); {
	case syndrome.Type() == rocev2.AckPositive:
		if rtt, ok := f.s.ack(psn, now); ok {
			f.total.add(rtt)
			f.current.add(rtt)
		}
	case isNAK && code == rocev2.NAKPSNSequence:
		f.s.nak(psn, now)
	default:
		f.fatal = fmt.Errorf("load: %s refuses: %s at PSN %d", f.To, syndrome, psn)
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// report returns the counters.
func (f *flow) report() Report {
	return Report{
		To: f.To, QPN: f.s.qpn, Bytes: f.s.ackedBytes, Packets: f.packets,
		Retransmits: f.s.retransmits, Timeouts: f.s.timeouts, NAKs: f.s.naks, PushBacks: f.pushBacks,
	}
}

// sample takes the time series until stop is closed, and the unfinished interval at
// its end.
func (f *flow) sample(start time.Time, stop <-chan struct{}) {
	tick := time.NewTicker(f.Interval)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-tick.C:
		case <-stop:
			running = false
		}
		at := time.Since(start)
		f.mu.Lock()
		r := f.report()
		r.Elapsed = at
		s := Sample{
			At:      at,
			Bytes:   r.Bytes - f.last.Bytes,
			Packets: max(r.Packets, f.last.Packets) - f.last.Packets,
			// unsend may have taken some back that the last sample counted.
			Retransmits: max(r.Retransmits, f.last.Retransmits) - f.last.Retransmits,
			RTTMin:      f.current.min,
			RTTMean:     f.current.mean(),
			RTTMax:      f.current.max,
			Outstanding: f.s.outstanding(),
		}
		s.GoodputBPS = float64(s.Bytes) * 8 / (at - f.last.Elapsed).Seconds()
		f.samples = append(f.samples, s)
		f.current, f.last = rtts{}, r
		f.mu.Unlock()
		if f.OnSample != nil {
			f.OnSample(s)
		}
	}
}
