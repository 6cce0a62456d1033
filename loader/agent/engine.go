// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"sync/atomic"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
)

// engineCheck is how soon the leftovers of an engine that was killed are removed.
const engineCheck = time.Second

// hasEngine says whether an engine is on the interface.
func (a *Agent) hasEngine() bool {
	return atomic.LoadUint32(&a.cfg.Caps)&uint32(bpf.CapSACK) != 0
}

// watchEngine tells the peers when an engine came or went on this interface, and
// cleans up after one that was killed.
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
	if caps := atomic.LoadUint32(&a.cfg.Caps); caps != a.hello.origin.Caps {
		a.log.Info("capabilities changed", "from", a.hello.origin.Caps, "to", caps)
		a.hello.announce(caps, now)
	}
}
