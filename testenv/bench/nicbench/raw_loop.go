// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/xsk"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// MinPacket is the shortest packet that is measured: an Ethernet header, a number.
const MinPacket = 60

// etherType is that of local experiments (IEEE 802).
const etherType = 0x88b5

// LoopSpec says what to send in one direction. The zero value of a field but Size
// means its default.
type LoopSpec struct {
	Size     int           // bytes of a packet with its Ethernet header
	Duration time.Duration // 1s
	Batch    int           // packets a Kick, 256
	Busy     time.Duration // receiver polls the driver (SO_PREFER_BUSY_POLL)

	// Kicker kicks from a thread of its own, not from the one that builds.
	Kicker bool

	// Data has both ends do what no transport can leave out (IBTA annex A17): the sender copies the
	// packet's data from a message and computes an ICRC, the receiver checks that and copies the
	// data to its place.
	Data bool

	// Spin makes the receiver look at the ring all the time instead of waiting in
	// the kernel when it is empty.
	Spin bool
}

// LoopResult is what got through.
type LoopResult struct {
	Size     int           `json:"size"`
	Sent     uint64        `json:"sent"`
	Received uint64        `json:"received"`
	Elapsed  time.Duration `json:"elapsed_ns"`
	PPS      float64       `json:"pps"`   // received
	Bytes    float64       `json:"bytes"` // received, a second

	// CPU time of the threads that build and kick, and of the one that receives. The
	// sender's holds the kernel's reception too, as far as that was not left to
	// ksoftirqd. On a machine that others use, it tells more than the rate.
	TxCPU time.Duration `json:"tx_cpu_ns"`
	RxCPU time.Duration `json:"rx_cpu_ns"`

	Mode     string `json:"mode"`
	BusyPoll bool   `json:"busy_poll"` // busy polling is in force
}

// String is one line of a report.
func (r LoopResult) String() string {
	n := max(1, r.Received)
	return fmt.Sprintf("%5d B  %9.0f packets/s  %7.1f MB/s  %d of %d lost  CPU ns a packet: %d sending, %d receiving  (%s)",
		r.Size, r.PPS, r.Bytes/1e6, r.Sent-r.Received, r.Sent, uint64(r.TxCPU)/n, uint64(r.RxCPU)/n, r.Mode)
}

// header writes what every packet starts with, and its number.
func header(b []byte, from, to topo.CableEnd, n uint64) {
	copy(b, to.MAC)
	copy(b[6:], from.MAC)
	binary.BigEndian.PutUint16(b[12:], etherType)
	binary.BigEndian.PutUint64(b[14:], n)
}

func number(b []byte) (uint64, bool) {
	if len(b) < 22 || binary.BigEndian.Uint16(b[12:]) != etherType {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[14:]), true
}

// Loop sends from one end of a cable to the other as fast as one core can, on queue
// 0: nothing but the header of a packet is written, and nothing but that is read.
func Loop(ctx context.Context, ends [2]topo.CableEnd, spec LoopSpec) (LoopResult, error) {
	if spec.Duration == 0 {
		spec.Duration = time.Second
	}
	if spec.Batch == 0 {
		spec.Batch = 256
	}
	r := LoopResult{Size: spec.Size}
	if spec.Size < MinPacket {
		return r, fmt.Errorf("xskbench: packets of %d bytes; the shortest have %d", spec.Size, MinPacket)
	}
	tx, rx, closeAll, err := rawPair(ends, spec.Size, spec.Busy)
	if err != nil {
		return r, err
	}
	defer closeAll()
	r.Mode, r.BusyPoll = rx.Mode().String(), rx.BusyPoll() > 0

	ctx, cancel := context.WithTimeout(ctx, spec.Duration)
	defer cancel()
	l := &loop{spec: spec, ends: ends, tx: tx, rx: rx}
	if spec.Data {
		for i := range l.memory {
			l.memory[i] = make([]byte, messageBytes)
		}
		fill(l.memory[0])
	}
	context.AfterFunc(ctx, func() { l.stop.Store(true) })
	var wg sync.WaitGroup
	var errTx, errKick, errRx error
	start := time.Now()
	wg.Go(func() {
		r.TxCPU = onThread(func() { r.Sent, errTx = l.transmit() })
		r.Elapsed = time.Since(start)
		l.total = r.Sent
		l.sent.Store(true)
	})
	if spec.Kicker {
		wg.Go(func() {
			r.TxCPU += onThread(func() { errKick = l.kick() })
		})
	}
	wg.Go(func() {
		r.RxCPU = onThread(func() { errRx = l.receive() })
		r.Received = l.received.Load()
	})
	wg.Wait()
	r.PPS = float64(r.Received) / r.Elapsed.Seconds()
	r.Bytes = r.PPS * float64(spec.Size)
	return r, errors.Join(errTx, errKick, errRx)
}

// rawPair opens the two sockets of a measurement.
func rawPair(ends [2]topo.CableEnd, size int, busy time.Duration) (a, b *xsk.Socket, closeAll func(), err error) {
	var closers []func() error
	closeAll = func() {
		for _, c := range closers {
			_ = c()
		}
	}
	var socks [2]*xsk.Socket
	for i, end := range ends {
		set, redi, err := Open(end, xsk.Config{SG: true, TxPacket: max(size, 2048), BusyPoll: busy, RxFrames: rxFrames, RxReserve: rxReserve})
		if err != nil {
			closeAll()
			return nil, nil, nil, err
		}
		closers = append(closers, redi.Close, set.Close)
		socks[i] = set[0]
	}
	return socks[0], socks[1], closeAll, nil
}

// onThread runs f on a thread of its own and returns the CPU time that it took.
func onThread(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadCPU()
	f()
	return threadCPU() - before
}

func threadCPU() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// loop is one measurement. The sender never has more in flight than the receiver
// has frames for, so that what is measured is what arrives.
type loop struct {
	spec   LoopSpec
	ends   [2]topo.CableEnd
	tx, rx *xsk.Socket
	memory [2][]byte // LoopSpec.Data: what is sent, and where it goes

	stop     atomic.Bool   // the time is over
	sent     atomic.Bool   // everything was kicked
	total    uint64        // packets that were sent, once sent is true
	received atomic.Uint64 // packets
}

// rxFrames are the receive frames, rxReserve of which in reserve, as the engine has them.
const rxFrames, rxReserve = 4096, 2048

// window is how many packets may be in flight: as many as fit the frames that are not in
// reserve, of which a packet takes one in 3520 bytes.
func (l *loop) window() uint64 {
	const room = 3520
	return uint64((rxFrames - rxReserve) / (1 + l.spec.Size/room))
}

func (l *loop) transmit() (sent uint64, err error) {
	window := l.window()
	for sent == 0 || !l.stop.Load() { // a batch at least, on a machine that stalls
		n := l.spec.Batch
		if sent+uint64(n)-l.received.Load() > window {
			yield()
			continue
		}
		if n = l.tx.Reserve(n); n == 0 {
			yield()
			continue
		}
		for range n {
			frame := l.tx.Frame()
			header(frame, l.ends[0], l.ends[1], sent)
			if l.spec.Data {
				l.put(frame, sent)
			}
			l.tx.Push(l.spec.Size)
			sent++
		}
		l.tx.Submit()
		if l.spec.Kicker {
			continue
		}
		if err := l.tx.Kick(); err != nil {
			return sent, err
		}
	}
	for deadline := time.Now().Add(lostAfter); l.tx.Pending() > 0 && err == nil && time.Now().Before(deadline); {
		err = l.tx.Kick()
	}
	return sent, err
}

func (l *loop) kick() error {
	for !l.sent.Load() {
		if l.tx.Pending() == 0 {
			yield()
		}
		if err := l.tx.Kick(); err != nil {
			return err
		}
	}
	return nil
}

// yield lets another thread of this machine's few cores run.
func yield() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// receive counts until all that was sent has come, or is lost. Packets must have the right size and come in order.
func (l *loop) receive() error {
	b := l.rx.NewBatch(256)
	next := uint64(0)
	var end time.Time // time at which what has not come is lost
	for {
		got := l.rx.Receive(b)
		if got == 0 {
			if l.sent.Load() {
				if end.IsZero() {
					end = time.Now().Add(lostAfter)
				}
				if l.received.Load() == l.total || time.Now().After(end) {
					return nil
				}
			}
			if !l.spec.Spin {
				if _, err := l.rx.Wait(10 * time.Millisecond); err != nil {
					return err
				}
			}
			continue
		}
		ours := uint64(0)
		for i := range got {
			p := b.Packet(i)
			seq, ok := number(p.Data())
			if !ok {
				continue
			}
			if p.Len() != l.spec.Size || seq < next {
				return fmt.Errorf("xskbench: packet %d has %d bytes, want number %d or later and %d bytes", seq, p.Len(), next, l.spec.Size)
			}
			if l.spec.Data && !l.take(p, seq) {
				return fmt.Errorf("xskbench: packet %d has a wrong ICRC", seq)
			}
			next = seq + 1
			ours++
		}
		b.Release()
		l.received.Add(ours)
	}
}
