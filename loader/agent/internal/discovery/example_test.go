// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader/agent/internal/discovery"
)

// A destination answers the second HELLO. The next one follows after a refresh.
func ExamplePeers() {
	peers := discovery.New(rand.Uint64N)
	used := func(bpf.DestKey, uint64) bool { return true } // there is traffic
	key := bpf.KeyOf(netip.MustParseAddr("10.0.0.2"))
	start := uint64(time.Hour)

	peers.Add(key, 0, start)
	for _, after := range []time.Duration{0, 50 * time.Millisecond, time.Second, 61 * time.Second} {
		now := start + uint64(after)
		ask, _ := peers.Due(now, used)
		for _, k := range ask {
			fmt.Println(after, "HELLO to", bpf.AddrOf(k))
		}
		if after == 50*time.Millisecond {
			fmt.Println(after, "changed:", peers.OnAck(key, bpf.CapStamp|bpf.CapSACK, now))
		}
	}
	// Output:
	// 0s HELLO to 10.0.0.2
	// 50ms HELLO to 10.0.0.2
	// 50ms changed: true
	// 1m1s HELLO to 10.0.0.2
}
