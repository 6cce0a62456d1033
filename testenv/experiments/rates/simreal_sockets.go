// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim/scenario"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// simRealSendBuffer lets a flow have about as much between itself and the wire as rdma_rxe
// lets a queue pair have.
const simRealSendBuffer = 64 * 2300

// sockets are flows through the kernel stack, as those of rdma_rxe: the pacer of
// attach holds them.
type sockets struct {
	s     *scenario.Scenario
	hosts []*topo.Host
	ends  []*load.Endpoint
}

// Sockets opens an endpoint on every host.
func Sockets(s *scenario.Scenario, hosts []*topo.Host) (Traffic, error) {
	k := &sockets{s: s, hosts: hosts}
	for _, h := range hosts {
		ep, err := load.Open(load.Config{Local: h.IPv4(), Do: h.Do})
		if err != nil {
			return nil, errors.Join(err, k.Close())
		}
		k.ends = append(k.ends, ep)
	}
	return k, nil
}

func (k *sockets) meet(ctx context.Context, f scenario.Endless) (time.Duration, error) {
	report, err := k.ends[f.Src].Send(ctx, load.Flow{To: k.hosts[f.Dst].IPv4(), Bytes: 4096, GiveUp: patience})
	return report.RTTMin, err
}

func (k *sockets) send(ctx context.Context, f scenario.Endless) error {
	t := k.s.Transport
	_, err := k.ends[f.Src].Send(ctx, load.Flow{
		To: k.hosts[f.Dst].IPv4(), Window: int(t.Window / t.MTU), PMTU: int(t.MTU), SendBuffer: simRealSendBuffer, GiveUp: patience,
	})
	return err
}

func (k *sockets) received(bytes []uint64) {
	from := map[int]map[netip.Addr]load.Received{}
	for i, f := range k.s.Endless() {
		if from[f.Dst] == nil {
			from[f.Dst] = k.ends[f.Dst].Received()
		}
		bytes[i] = from[f.Dst][k.hosts[f.Src].IPv4()].Bytes
	}
}

// Close closes the endpoints.
func (k *sockets) Close() error {
	var errs []error
	for _, ep := range k.ends {
		errs = append(errs, ep.Close())
	}
	return errors.Join(errs...)
}
