// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// newEngine puts the engine together; start has it run.
func newEngine(d *Device) (*engine, error) {
	e := &engine{
		dev: d, dataplane: d.dataplane, clock: newClock(), kick: newKicker(),
		dests: map[netip.Addr]*dest{}, reorder: qp.NewReorderPool(reorderPackets),
	}
	e.posts.init()
	e.config = d.dataplane.RuntimeConfig()
	e.loopback.maxFrame = max(maxFrame(d.mtu), 4096+256)
	e.loopback.rounds = loopbackRounds
	e.scratch = make([]byte, max(maxFrame(d.mtu)+64, 16<<10))
	e.datagrams.report.Addr = netip.Addr{}
	e.sync.init()
	e.onTimer, e.onDest = e.expire, e.unblock
	var fds []int
	if e.feeder = d.opts.Feeder; e.feeder != nil {
		fds = append(fds, e.feeder.FD())
	}
	for _, s := range d.socks {
		e.socks = append(e.socks, &sock{xsk: s, batch: s.NewBatch(rxBatch)})
		fds = append(fds, s.FD())
	}
	if err := e.driver.Init(loop{e}, fds...); err != nil {
		return nil, err
	}
	e.senders = []*sock{{}} // nothing leaves a loopback device
	if d.routes != nil {
		index, _, err := d.link()
		if err != nil {
			e.driver.Close()
			return nil, err
		}
		e.senders = e.socks[:len(d.socks.Senders(d.opts.Interface, index))]
	}
	e.datagrams.sock = e.senders[0]
	return e, nil
}

// reorderPackets is how many packets behind gaps all queue pairs buffer together, of
// 4.25 KB each and only when needed.
const reorderPackets = 4096

func (e *engine) start() {
	e.dev.started.Store(e)
	go e.kick.run(e.socks)
	go e.sync.run(e)
	go e.driver.Run()
}
