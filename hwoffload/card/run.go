// SPDX-License-Identifier: Apache-2.0

package card

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Wire is what a port of a running model is connected to. Send and Receive are called by one
// goroutine each; both return an error after Close. Cable and Ethernet are two.
type Wire interface {
	// Send sends an Ethernet frame. It does not keep the slice.
	Send(frame []byte) error
	// Receive waits for a frame and copies it to buf. A frame that is longer is cut.
	Receive(buf []byte) (int, error)
	Close() error
}

// Running is a model that sends and receives.
type Running struct {
	m     *Model
	wires [regs.PortsCount]Wire
	start time.Time
	stop  chan struct{}
	all   sync.WaitGroup

	lock sync.Mutex
	errs []error
}

// Start connects the ports of a model with wires, until Close; a port without a wire (nil) loses
// what it sends. The link of a port with a wire is up. The caller keeps the model for one Start.
func Start(m *Model, wires [regs.PortsCount]Wire) *Running {
	r := &Running{m: m, wires: wires, start: time.Now(), stop: make(chan struct{})}
	m.lock.Lock()
	m.running = r.now
	m.lock.Unlock()
	r.all.Add(1)
	go r.send()
	for i, w := range wires {
		if w == nil {
			continue
		}
		m.Put(regs.PortsBase+uint64(i)*regs.PortsStride+regs.PortsStatusOffset, uint32(regs.PortsStatus(0).WithLink(true)))
		r.all.Add(1)
		go r.receive(i, w)
	}
	return r
}

// now is the time since Start. It is never 0, which is no time.
func (r *Running) now() qp.Time { return qp.Time(time.Since(r.start)) + 1 }

// burst is how many frames are sent before timers are handled.
const burst = 256

// send is the goroutine that sends frames and handles timers.
func (r *Running) send() {
	defer r.all.Done()
	buf := make([]byte, FrameLen)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		r.m.Expire(r.now())
		n := 0
		for ; n < burst; n++ {
			port, size, ok := r.m.NextFrame(r.now(), buf)
			if !ok {
				break
			}
			if w := r.wires[port]; w != nil {
				r.failed(port, w.Send(buf[:size]))
			}
		}
		wait := time.Duration(0)
		if n < burst {
			wait = r.untilDeadline()
		}
		timer.Reset(wait)
		select {
		case <-r.stop:
			return
		case <-r.m.wake:
		case <-timer.C:
		}
	}
}

// untilDeadline is the time to the next timer, or an hour.
func (r *Running) untilDeadline() time.Duration {
	at := r.m.Deadline()
	if at == 0 {
		return time.Hour
	}
	return max(0, time.Duration(at-r.now()))
}

// receive is the goroutine that takes the frames of a wire.
func (r *Running) receive(port int, w Wire) {
	defer r.all.Done()
	buf := make([]byte, 1<<16)
	for {
		n, err := w.Receive(buf)
		if err != nil {
			r.failed(port, err)
			return
		}
		r.m.Deliver(port, buf[:n], r.now())
	}
}

// failed keeps the first errors before Close. A frame that could not be sent is lost. A wire that
// its other end has closed is no error.
func (r *Running) failed(port int, err error) {
	if err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) {
		return
	}
	select {
	case <-r.stop:
		return
	default:
	}
	const most = 8
	r.lock.Lock()
	defer r.lock.Unlock()
	if len(r.errs) < most {
		r.errs = append(r.errs, fmt.Errorf("card: port %d: %w", port, err))
	}
}

// Close stops the model and closes the wires. It returns the first errors of the wires.
func (r *Running) Close() error {
	close(r.stop)
	var errs []error
	for _, w := range r.wires {
		if w != nil {
			errs = append(errs, w.Close())
		}
	}
	r.all.Wait()
	r.lock.Lock()
	defer r.lock.Unlock()
	return errors.Join(append(r.errs, errs...)...)
}
