// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader"
)

// xdpFacts has the XDP features that a driver reports (netlink family "netdev", Linux 6.3).
type xdpFacts struct {
	Native   bool `json:"native"`   // XDP_PASS, DROP, TX, ABORTED in the driver
	Redirect bool `json:"redirect"` // frames can be redirected, to AF_XDP sockets too
	Frags    bool `json:"frags"`    // frames of several buffers
	ZeroCopy bool `json:"zerocopy"` // AF_XDP without a copy
}

// include/uapi/linux/netdev.h
const (
	netdevCmdDevGet       = 1
	netdevADevIfindex     = 1
	netdevADevXDPFeatures = 3

	netdevXDPBasic    = 1 << 0
	netdevXDPRedirect = 1 << 1
	netdevXDPZeroCopy = 1 << 3
	netdevXDPRxSG     = 1 << 5
)

// xdpFeatures returns nil if the kernel does not report them.
func xdpFeatures(ifindex int) (*xdpFacts, error) {
	family, err := netlink.GenlFamilyGet("netdev")
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil, nil
		}
		return nil, fmt.Errorf("look up the netlink family netdev: %w", err)
	}
	req := nl.NewNetlinkRequest(int(family.ID), 0)
	req.AddData(genlHeader{netdevCmdDevGet, 1})
	req.AddData(nl.NewRtAttr(netdevADevIfindex, binary.NativeEndian.AppendUint32(nil, uint32(ifindex))))
	msgs, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return nil, fmt.Errorf("ask the driver for its XDP features: %w", err)
	}
	for _, m := range msgs {
		attrs, err := nl.ParseRouteAttr(m[nl.SizeofGenlmsg:])
		if err != nil {
			return nil, fmt.Errorf("XDP features: %w", err)
		}
		for _, a := range attrs {
			if a.Attr.Type&^unix.NLA_F_NESTED == netdevADevXDPFeatures && len(a.Value) >= 8 {
				bits := binary.NativeEndian.Uint64(a.Value)
				return &xdpFacts{
					Native: bits&netdevXDPBasic != 0 && loader.DeniedFeature(loader.FeatureNativeXDP) == nil, Redirect: bits&netdevXDPRedirect != 0,
					Frags: bits&netdevXDPRxSG != 0 && loader.DeniedFeature(loader.FeatureXDPFrags) == nil, ZeroCopy: bits&netdevXDPZeroCopy != 0,
				}, nil
			}
		}
	}
	return nil, nil
}

// genlHeader is struct genlmsghdr: command, version, and two reserved bytes that
// must be zero: nl.Genlmsg leaves them uninitialised, and the kernel then refuses.
type genlHeader [nl.SizeofGenlmsg]byte

func (genlHeader) Len() int            { return nl.SizeofGenlmsg }
func (h genlHeader) Serialize() []byte { return h[:] }
