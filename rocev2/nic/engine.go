// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// newEngine puts the engine together; start has it run.
func newEngine(d *Device) (*engine, error) {
	e := &engine{
		dev: d, clock: newClock(), reorder: qp.NewReorderPool(reorderPackets), allow: d.allow,
	}
	e.posts.init()
	e.rail.init(d.dataplane, d.socks)
	e.loopback.maxFrame = max(maxFrame(d.mtu), 4096+256)
	e.loopback.rounds = loopbackRounds
	longest := maxFrame(d.mtu)
	for _, p := range d.otherRails {
		r := new(rail)
		r.init(p.dataplane, p.socks)
		r.senders = r.socks[:len(p.socks.Senders(p.name, p.index))]
		e.otherRails = append(e.otherRails, r)
		longest = max(longest, maxFrame(p.mtu))
	}
	e.scratch = make([]byte, max(longest+64, 16<<10))
	e.datagrams.report.Addr = netip.Addr{}
	e.onTimer, e.onDest = e.expire, e.unblock
	var fds []int
	if e.feeder = d.opts.Feeder; e.feeder != nil {
		fds = append(fds, e.feeder.FD())
	}
	for r := range e.rails {
		for _, s := range r.socks {
			fds = append(fds, s.xsk.FD())
		}
	}
	if err := e.driver.Init(loopEngine{e}, fds...); err != nil {
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
	for r := range e.rails {
		go r.kick.run(r.socks)
		go r.sync.run(e, r.dataplane)
	}
	go e.driver.Run()
}
