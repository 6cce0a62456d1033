// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"context"
	"fmt"
	"strings"
)

// Netem is what happens to packets of one card inside the machine, in the words of tc-netem(8):
// "loss 1% duplicate 1% delay 1ms reorder 25%". An empty direction is left alone.
type Netem struct {
	Egress  string // discipline for the packets that the machine sends
	Ingress string // discipline for the packets that the machine receives, by way of an ifb device
}

// netemLimit is the queue of packets under delay. The kernel's 1000 is less than one message of
// 1 MB at PMTU 256, and what goes beyond it is lost unasked.
const netemLimit = 20_000

// SetNetem puts netem on eth0 of the machine, in place of what was there. The zero Netem takes it
// away.
func (vm *VM) SetNetem(ctx context.Context, n Netem) error {
	if _, err := vm.Run(ctx, "sh", "-e", "-c", netemScript("eth0", n)); err != nil {
		return fmt.Errorf("rxepeer: netem %+v: %w", n, err)
	}
	return nil
}

// netemScript makes both directions anew: netem changed in place keeps settings that the new
// words do not mention.
func netemScript(dev string, n Netem) string {
	ifb := "ifb-" + dev
	lines := []string{
		fmt.Sprintf("tc qdisc del dev %s root 2>/dev/null || true", dev),
		fmt.Sprintf("tc qdisc del dev %s ingress 2>/dev/null || true", dev),
		fmt.Sprintf("ip link del %s 2>/dev/null || true", ifb),
	}
	if n.Egress != "" {
		lines = append(lines, fmt.Sprintf("tc qdisc add dev %s root netem limit %d %s", dev, netemLimit, n.Egress))
	}
	if n.Ingress != "" {
		lines = append(lines,
			fmt.Sprintf("ip link add %s mtu $(cat /sys/class/net/%s/mtu) type ifb", ifb, dev),
			fmt.Sprintf("ip link set %s up", ifb),
			fmt.Sprintf("tc qdisc add dev %s root netem limit %d %s", ifb, netemLimit, n.Ingress),
			fmt.Sprintf("tc qdisc add dev %s ingress", dev),
			fmt.Sprintf("tc filter add dev %s ingress matchall action mirred egress redirect dev %s", dev, ifb))
	}
	return strings.Join(lines, "\n")
}
