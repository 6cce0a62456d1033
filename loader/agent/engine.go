// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"sync/atomic"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
)

// engineCheck is the time within which the entries of a killed engine are removed.
const engineCheck = time.Second

// hasEngine reports whether the interface has an engine.
func (a *Agent) hasEngine() bool {
	return atomic.LoadUint32(&a.cfg.Caps)&uint32(bpf.CapSACK) != 0
}

// watchEngine sends HELLO to the peers when an engine was opened or closed on this
// interface, and removes the entries of a killed engine.
func (a *Agent) watchEngine(now uint64) {
	if now-a.engine >= uint64(engineCheck) {
		a.engine = now
		switch left, err := loader.CleanEngine(a.att); {
		case err != nil:
			a.log.Warn("clean up after an engine", "err", err)
		case left:
			a.log.Warn("an engine ended without closing its device: its entries are removed")
		}
	}
	if caps := atomic.LoadUint32(&a.cfg.Caps); caps != a.control.origin.Caps {
		a.log.Info("capabilities changed", "from", a.control.origin.Caps, "to", caps)
		a.control.origin.Caps = caps
		a.peers.Announce(now)
	}
}
