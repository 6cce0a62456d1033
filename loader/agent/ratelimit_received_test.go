// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// forgetPeer creates the entry of a peer and lets the agent forget it.
func forgetPeer(t *testing.T, a *Agent, key bpf.DestKey) {
	t.Helper()
	if err := a.att.Maps.DestTable.Put(key, bpf.DestRegs{}); err != nil {
		t.Fatal(err)
	}
	a.forget(key, 0)
}

// What an earlier agent has counted of a peer ends with the peer's entry, though this one limits nobody.
func TestForgetCountsOfAnEarlierAgent(t *testing.T) {
	topo.RequireRoot(t)
	onAttached(t, loader.Options{}, func(t *testing.T, _ netlink.Link, o loader.Options) {
		a := mustOpen(t, o)
		key := bpf.KeyOf(peerN(9))
		if err := a.att.Maps.ArrivalCounts.Put(key, bpf.ArrivalCount{DroppedPackets: 7}); err != nil {
			t.Fatal(err)
		}
		forgetPeer(t, a, key)
		x, err := a.att.Limits()
		if err != nil || len(x.Dropped) != 0 {
			t.Errorf("dropped of a peer without entry: %v, %v", x.Dropped, err)
		}
	})
}

// An attachment that lacks a map of limits has none, and the agent runs without them.
func TestWithoutAMapOfLimits(t *testing.T) {
	topo.RequireRoot(t)
	for _, name := range []string{
		bpf.SoftroceMapRateLimits, bpf.SoftroceMapArrivalLimits, bpf.SoftroceMapArrivalCounts, bpf.SoftroceMapLimitState,
	} {
		t.Run(name, func(t *testing.T) {
			onAttached(t, loader.Options{}, func(t *testing.T, _ netlink.Link, o loader.Options) {
				if err := os.Remove(filepath.Join(loader.PinDir(o.PinRoot, topo.IfName), name)); err != nil {
					t.Fatal(err)
				}
				a := mustOpen(t, o)
				forgetPeer(t, a, bpf.KeyOf(peerN(9)))
				if x, err := a.att.Limits(); err != nil || len(x.Receiving) != 0 {
					t.Errorf("%+v, %v", x, err)
				}
			})
		})
	}
}
