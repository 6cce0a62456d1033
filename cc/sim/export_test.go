// SPDX-License-Identifier: Apache-2.0

package sim

import "fmt"

// Balance says what is left in a network that has come to rest.
func (n *Net) Balance() error {
	if n.livePkts != 0 {
		return fmt.Errorf("%d packets are neither delivered nor dropped", n.livePkts)
	}
	for i, s := range n.switches {
		if s.used != 0 || s.headroom != 0 {
			return fmt.Errorf("switch %d holds %d bytes, %d of headroom", i, s.used, s.headroom)
		}
	}
	for i, in := range n.ingress {
		if in.bytes != 0 || in.headUsed != 0 || in.paused {
			return fmt.Errorf("ingress queue %d: %+v", i, in)
		}
	}
	for i := range n.ports {
		if p := &n.ports[i]; p.queueBytes != 0 || p.ready != 0 || p.paused != 0 {
			return fmt.Errorf("port %d holds %d bytes, paused %b", i, p.queueBytes, p.paused)
		}
	}
	for _, p := range n.pacers {
		if p != nil && (p.InflightBytes != 0 || p.BacklogBytes != 0 || p.Flows != 0 || len(p.sending) != 0) {
			return fmt.Errorf("pacer from %d to %d: %d bytes in flight, %d waiting", p.Src, p.Dst, p.InflightBytes, p.BacklogBytes)
		}
	}
	return nil
}
