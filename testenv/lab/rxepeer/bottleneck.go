// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// SetBottleneck has the bridge send to a machine, by its tap (TapName), through a token bucket of
// so many bit/s, in front of which limit bytes may wait.
func (n *Net) SetBottleneck(iface string, bps uint64, limit uint32) error {
	return n.onLink(iface, func(link netlink.Link) error {
		const burst = 10_000 // bytes: two jumbo frames, or what 1500-byte frames make of it
		return netlink.QdiscReplace(&netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
			Rate:       bps / 8, Limit: limit, Buffer: netlink.Xmittime(bps/8, burst),
		})
	})
}

// Bottleneck tells how many bytes the token bucket of a machine's tap has let through so far, and
// how many packets found its queue full.
func (n *Net) Bottleneck(iface string) (passed uint64, drops uint32, err error) {
	err = n.onLink(iface, func(link netlink.Link) error {
		all, err := netlink.QdiscList(link)
		if err != nil {
			return err
		}
		for _, q := range all {
			a := q.Attrs()
			if q.Type() == "tbf" && a.Statistics != nil && a.Statistics.Basic != nil && a.Statistics.Queue != nil {
				passed, drops = a.Statistics.Basic.Bytes, a.Statistics.Queue.Drops
				return nil
			}
		}
		return fmt.Errorf("no token bucket: SetBottleneck installs one")
	})
	return passed, drops, err
}

func (n *Net) onLink(iface string, f func(netlink.Link) error) error {
	return n.do(func() error {
		link, err := netlink.LinkByName(iface)
		if err == nil {
			err = f(link)
		}
		if err != nil {
			return fmt.Errorf("rxepeer: interface %s: %w", iface, err)
		}
		return nil
	})
}
