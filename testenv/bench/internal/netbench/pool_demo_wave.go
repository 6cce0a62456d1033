// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"context"
	"errors"
	"math"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/server"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Of the second node.
const (
	waveName   = "wave"
	waveLow    = 4 << 20 // bytes
	waveHigh   = 32 << 20
	wavePeriod = 6 * time.Second // from one top to the next
)

// wave is a node whose demand goes up and down, and which uses what it has.
type wave struct {
	dev    verbs.Device
	node   *node.Node
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu     sync.Mutex
	failed error
}

func startWave(ctx context.Context, l *poolLab) (*wave, error) {
	dev, err := rdma.Open(ctx, "eth0", rdma.WithConfig(client.Config{RunDir: l.RunDir(l.Host(3))}))
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(l.Address(), strconv.Itoa(server.Port))
	n, err := node.Join(ctx, dev, address, node.Config{Name: waveName, Period: period, Demand: waveLow})
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	w := &wave{dev: dev, node: n}
	running, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	w.all.Go(func() { w.run(running) })
	return w, nil
}

// demandIn is the demand in a period of the node: a cosine.
func demandIn(n uint32) uint64 {
	phase := 2 * math.Pi * float64(n) * period.Seconds() / wavePeriod.Seconds()
	return waveLow + uint64((waveHigh-waveLow)*(1-math.Cos(phase))/2)
}

// run sets the demand of each period, returns what the server asks for, and writes to the rest.
func (w *wave) run(ctx context.Context) {
	page := make([]byte, node.PageBytes)
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.node.Done():
			w.fail(w.node.Err())
			return
		case <-w.node.Changed():
		}
		l := w.node.Lease()
		w.node.SetDemand(demandIn(l.Period))
		for _, s := range l.Slabs {
			var err error
			if s.Return.IsZero() {
				err = w.node.Write(ctx, s.Number, 0, page)
			} else {
				err = w.node.Return(ctx, s.Number)
			}
			if err != nil && ctx.Err() == nil && !errors.Is(err, node.ErrNotLeased) {
				w.fail(err)
				return
			}
		}
	}
}

func (w *wave) fail(err error) {
	w.mu.Lock()
	w.failed = err
	w.mu.Unlock()
}

// err is why the node has ended.
func (w *wave) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// end leaves the pool.
func (w *wave) end() error {
	w.cancel()
	w.all.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return errors.Join(w.err(), w.node.Leave(ctx), w.dev.Close())
}
