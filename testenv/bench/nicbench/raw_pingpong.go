// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/xsk"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// PingPongSpec says how to measure round trips. The zero value of a field but Size
// means its default.
type PingPongSpec struct {
	Size     int           // bytes of a packet with its Ethernet header
	Duration time.Duration // 1s
	Busy     time.Duration // both ends poll the driver

	// Sleep lets both ends wait in the kernel; otherwise they look at the rx ring
	// all the time.
	Sleep bool
}

// PingPongResult holds round trips.
type PingPongResult struct {
	Size  int           `json:"size"`
	Trips int           `json:"trips"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
}

// String is one line of a report.
func (r PingPongResult) String() string {
	return fmt.Sprintf("%5d B  there and back p50 %v  p99 %v  max %v  (%d)", r.Size, r.P50, r.P99, r.Max, r.Trips)
}

// lostAfter is the time after which a packet that has not come is lost. On a machine that stalls, packets come late.
const lostAfter = time.Minute

// PingPong sends one packet at a time over a cable and back, on queue 0.
func PingPong(ctx context.Context, ends [2]topo.CableEnd, spec PingPongSpec) (PingPongResult, error) {
	if spec.Duration == 0 {
		spec.Duration = time.Second
	}
	r := PingPongResult{Size: spec.Size}
	if spec.Size < MinPacket {
		return r, fmt.Errorf("xskbench: packets of %d bytes; the shortest have %d", spec.Size, MinPacket)
	}
	a, b, closeAll, err := rawPair(ends, spec.Size, spec.Busy)
	if err != nil {
		return r, err
	}
	defer closeAll()
	ctx, cancel := context.WithTimeout(ctx, spec.Duration)
	defer cancel()
	var stop, done atomic.Bool
	context.AfterFunc(ctx, func() { stop.Store(true) })

	var wg sync.WaitGroup
	var trips []time.Duration
	var errA, errB error
	wg.Go(func() {
		defer func() { done.Store(true); b.Wake() }()
		trips, errA = ping(a, ends, spec, &stop)
	})
	wg.Go(func() { errB = pong(b, ends, spec, &done) })
	wg.Wait()
	if err := errors.Join(errA, errB); err != nil {
		return r, err
	}
	trips = trips[len(trips)/10:] // the rest warmed up
	slices.Sort(trips)
	if r.Trips = len(trips); r.Trips == 0 {
		return r, errors.New("xskbench: no packet came back")
	}
	r.P50, r.P99, r.Max = trips[len(trips)/2], trips[len(trips)*99/100], trips[len(trips)-1]
	return r, nil
}

// ping measures round trips until stop.
func ping(s *xsk.Socket, ends [2]topo.CableEnd, spec PingPongSpec, stop *atomic.Bool) ([]time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	batch := s.NewBatch(64)
	trips := make([]time.Duration, 0, 1<<20)
	for seq := uint64(0); seq == 0 || !stop.Load() && len(trips) < cap(trips); seq++ {
		start := time.Now()
		if err := sendOne(s, ends[0], ends[1], spec.Size, seq); err != nil {
			return nil, err
		}
		for back := false; !back; {
			if spec.Sleep {
				if _, err := s.Wait(lostAfter); err != nil {
					return nil, err
				}
			}
			for i := range s.Receive(batch) {
				n, ours := number(batch.Packet(i).Data())
				back = back || ours && n == seq
			}
			batch.Release()
			if !back && time.Since(start) > lostAfter {
				return nil, fmt.Errorf("xskbench: packet %d did not come back", seq)
			}
		}
		trips = append(trips, time.Since(start))
	}
	return trips, nil
}

// pong sends back what comes in until the pings are done.
func pong(s *xsk.Socket, ends [2]topo.CableEnd, spec PingPongSpec, done *atomic.Bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	batch := s.NewBatch(64)
	for !done.Load() {
		if spec.Sleep {
			if _, err := s.Wait(lostAfter); err != nil {
				return err
			}
		}
		for i := range s.Receive(batch) {
			if n, ours := number(batch.Packet(i).Data()); ours {
				if err := sendOne(s, ends[1], ends[0], spec.Size, n); err != nil {
					return err
				}
			}
		}
		batch.Release()
	}
	return nil
}

func sendOne(s *xsk.Socket, from, to topo.CableEnd, size int, seq uint64) error {
	buf := s.Frame()
	if buf == nil {
		return errors.New("xskbench: no frame to send: packets are lost")
	}
	header(buf, from, to, seq)
	s.Push(size)
	s.Submit()
	return s.Kick()
}
