// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim/scenario"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
)

// writeBytes is the size of the WRITEs that make a flow: small, because what has
// arrived is known by the completed ones.
const writeBytes = 4096

// engineFlows are flows of queue pairs of our engine, each a stream of WRITEs.
type engineFlows struct {
	hosts []*engines.Host
	flows map[scenario.Endless]*engineFlow
	order []*engineFlow
}

type engineFlow struct {
	qp   verbs.QP
	cq   verbs.CQ
	from verbs.SGE
	to   uint64
	rkey uint32
	deep int // WRITEs outstanding
	done atomic.Uint64
}

// Engines opens an engine on every host, and a pair of queue pairs for each flow.
func Engines(s *scenario.Scenario, hosts []*engines.Host) (Traffic, error) {
	e := &engineFlows{hosts: hosts, flows: map[scenario.Endless]*engineFlow{}}
	for _, h := range hosts {
		if _, err := h.Open(nic.Options{}); err != nil {
			return nil, err
		}
	}
	for _, f := range s.Endless() {
		x, err := e.connect(s, f)
		if err != nil {
			return nil, fmt.Errorf("simvsreal: host %d to host %d: %w", f.Src, f.Dst, err)
		}
		e.flows[f] = x
		e.order = append(e.order, x)
	}
	return e, nil
}

func (e *engineFlows) connect(s *scenario.Scenario, f scenario.Endless) (*engineFlow, error) {
	src, dst := e.hosts[f.Src], e.hosts[f.Dst]
	x := &engineFlow{deep: max(int(s.Transport.Window)/writeBytes, 1)}
	var peer verbs.QP
	for _, h := range []*engines.Host{src, dst} {
		pd, err := h.Dev.AllocPD()
		if err != nil {
			return nil, err
		}
		mr, err := pd.RegMR(make([]byte, writeBytes), engines.Access)
		if err != nil {
			return nil, err
		}
		cq, err := h.Dev.CreateCQ(x.deep + 1)
		if err != nil {
			return nil, err
		}
		pair, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSend: x.deep})
		if err != nil {
			return nil, err
		}
		if h == src {
			x.qp, x.cq, x.from = pair, cq, verbs.SGE{Addr: mr.VA(), LKey: mr.LKey()}
		} else {
			peer, x.to, x.rkey = pair, mr.VA(), mr.RKey()
		}
	}
	pmtu, ok := rocev2.PMTUForMTU(int(s.Transport.MTU) + rocev2.PMTUOverhead)
	if !ok || pmtu.Bytes() != int(s.Transport.MTU) {
		return nil, fmt.Errorf("mtu %d is none of a queue pair: use 256, 512, 1024, 2048 or 4096", s.Transport.MTU)
	}
	return x, engines.Connect(x.qp, peer, src.IPv4(), dst.IPv4(), pmtu)
}

func (x *engineFlow) post(n uint32) error {
	from := x.from
	from.Len = n
	return x.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{from}, RemoteAddr: x.to, RKey: x.rkey})
}

func (e *engineFlows) meet(_ context.Context, f scenario.Endless) (least time.Duration, err error) {
	x := e.flows[f]
	for range 20 {
		begin := time.Now()
		if err := x.post(8); err != nil {
			return 0, err
		}
		c, err := engines.PollOne(x.cq, patience)
		if err == nil && c.Status != verbs.StatusSuccess {
			err = fmt.Errorf("the first WRITE ended with %v", c.Status)
		}
		if err != nil {
			return 0, err
		}
		if took := time.Since(begin); least == 0 || took < least {
			least = took
		}
	}
	return least, nil
}

func (e *engineFlows) send(ctx context.Context, f scenario.Endless) error {
	x := e.flows[f]
	out := make([]verbs.Completion, x.deep)
	for under := 0; ctx.Err() == nil; {
		for ; under < x.deep; under++ {
			if err := x.post(writeBytes); err != nil {
				return err
			}
		}
		if err := x.cq.Wait(ctx, false); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		n := x.cq.Poll(out)
		for _, c := range out[:n] {
			if c.Status != verbs.StatusSuccess {
				return fmt.Errorf("simvsreal: host %d to host %d: a WRITE ended with %v", f.Src, f.Dst, c.Status)
			}
		}
		under -= n
		x.done.Add(uint64(n))
	}
	return nil
}

func (e *engineFlows) received(bytes []uint64) {
	for i, x := range e.order {
		bytes[i] = x.done.Load() * writeBytes
	}
}

// Close closes the engines.
func (e *engineFlows) Close() error { return engines.Close(e.hosts) }
