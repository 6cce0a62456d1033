// SPDX-License-Identifier: Apache-2.0

package route

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// rdmaClass exists if the kernel's RDMA subsystem is loaded, in all network namespaces.
const rdmaClass = "/sys/class/infiniband"

// Of the RDMA netlink protocol (linux/rdma/rdma_netlink.h).
const (
	nldevPortGet   = 5  // RDMA_NLDEV_CMD_PORT_GET
	nldevNdevIndex = 50 // RDMA_NLDEV_ATTR_NDEV_INDEX
)

// KernelRDMA reports whether the kernel has an RDMA device on the interface, or on one that it is a
// VLAN or a member of, or the reverse. It is true if that cannot be found out. It takes some
// microseconds where the kernel's RDMA subsystem is not loaded, and asks the kernel otherwise.
func (t *Table) KernelRDMA() bool {
	if _, err := os.Stat(rdmaClass); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat("/sys/class/net"); err == nil {
			return false
		}
	}
	t.kernel.rdma.Lock()
	defer t.kernel.rdma.Unlock()
	if t.kernel.closed {
		return true
	}
	indexes, err := t.kernel.rdmaInterfaces()
	if err != nil {
		return true
	}
	for _, i := range indexes {
		if related, err := t.kernel.related(i); err != nil || related {
			return true
		}
	}
	return false
}

// rdmaInterfaces returns the interfaces of all RDMA devices that are in the network namespace.
func (k *kernel) rdmaInterfaces() (indexes []int, err error) {
	s, err := nl.GetNetlinkSocketAt(k.ns, netns.None(), unix.NETLINK_RDMA)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	tv := unix.NsecToTimeval(int64(answerTimeout))
	if err := s.SetReceiveTimeout(&tv); err != nil {
		return nil, err
	}
	devices, err := nldev(s, nl.RDMA_NLDEV_CMD_GET)
	if err != nil {
		return nil, err
	}
	for _, m := range devices {
		device, ok := attribute(m, nl.RDMA_NLDEV_ATTR_DEV_INDEX)
		if !ok {
			return nil, errors.New("an RDMA device without an index")
		}
		ports, err := nldev(s, nldevPortGet, nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(device)))
		if err != nil {
			return nil, err
		}
		for _, p := range ports {
			if i, ok := attribute(p, nldevNdevIndex); ok { // none: in another namespace, or no Ethernet
				indexes = append(indexes, int(i))
			}
		}
	}
	return indexes, nil
}

// nldev executes a dump request of the RDMA netlink protocol.
func nldev(s *nl.NetlinkSocket, command int, attributes ...nl.NetlinkRequestData) ([][]byte, error) {
	req := nl.NewNetlinkRequest(nl.RDMA_NL_NLDEV<<nl.RDMA_NL_GET_CLIENT_SHIFT|command, unix.NLM_F_ACK|unix.NLM_F_DUMP)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_RDMA: {Socket: s}}
	for _, a := range attributes {
		req.AddData(a)
	}
	return req.Execute(unix.NETLINK_RDMA, 0)
}

// attribute returns the 32 bits of an attribute of a message.
func attribute(m []byte, kind uint16) (uint32, bool) {
	list, err := nl.ParseRouteAttr(m)
	if err != nil {
		return 0, false
	}
	for _, a := range list {
		if a.Attr.Type == kind && len(a.Value) >= 4 {
			return binary.NativeEndian.Uint32(a.Value), true
		}
	}
	return 0, false
}

// related reports whether an interface is this one, or has the same packets.
func (k *kernel) related(index int) (bool, error) {
	if index == k.index {
		return true, nil
	}
	own, err := k.handle.LinkByIndex(k.index)
	if err != nil {
		return false, err
	}
	other, err := k.handle.LinkByIndex(index)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return false, nil // it was deleted meanwhile
	}
	if err != nil {
		return false, err
	}
	a, b := own.Attrs(), other.Attrs()
	return a.ParentIndex == b.Index || a.MasterIndex == b.Index || b.ParentIndex == a.Index || b.MasterIndex == a.Index, nil
}
