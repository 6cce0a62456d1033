// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// traffic is a flow of RDMA WRITEs from host A to host B that begins again when it has failed,
// for example because the interface was away.
type traffic struct {
	a, b *load.Endpoint
	stop context.CancelFunc
	done sync.WaitGroup
}

func startTraffic(a, b *topo.Host) (_ *traffic, err error) {
	tr := &traffic{}
	if tr.a, err = load.Open(load.Config{Local: addrA.Addr(), Do: a.Do}); err != nil {
		return nil, err
	}
	if tr.b, err = load.Open(load.Config{Local: addrB.Addr(), Do: b.Do}); err != nil {
		return nil, errors.Join(err, tr.a.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	tr.stop = stop
	tr.done.Go(func() {
		for ctx.Err() == nil {
			_, _ = tr.a.Send(ctx, load.Flow{To: addrB.Addr(), Window: 64, GiveUp: 2 * time.Second, Interval: time.Second})
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return tr, nil
}

// received is the number of bytes that have arrived at B.
func (tr *traffic) received() uint64 { return tr.b.Received()[addrA.Addr()].Bytes }

// rate measures the traffic for a time, in bit/s.
func (tr *traffic) rate(d time.Duration) float64 {
	before, start := tr.received(), time.Now()
	time.Sleep(d)
	// The clock is read last, so that a stall of this process makes the figure smaller.
	after := tr.received()
	return float64(after-before) * 8 / time.Since(start).Seconds()
}

// wrong is the number of payload bytes that arrived and were not those that were sent.
func (tr *traffic) wrong() uint64 { return tr.b.Received()[addrA.Addr()].Mismatches }

func (tr *traffic) close() error {
	tr.stop()
	tr.done.Wait()
	return errors.Join(tr.a.Close(), tr.b.Close())
}
