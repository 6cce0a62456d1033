// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// DefaultRateBps is the rate of a link if neither driver nor user gives one.
const DefaultRateBps = 10_000_000_000

// MinRateBps is the lowest rate of a link, in bits per second: the kernel paces by whole bytes per
// second.
const MinRateBps = 8

// CheckRate refuses a rate of a link that the pacers cannot enforce.
func CheckRate(bps uint64) error {
	if bps < MinRateBps {
		return fmt.Errorf("a rate of %d bit/s is too low: choose at least %d, for example 25G", bps, MinRateBps)
	}
	return nil
}

// Iface has the properties of an interface that attach needs.
type Iface struct {
	Link     netlink.Link
	Name     string
	Index    int
	MTU      int
	MAC      [6]byte
	TxQueues int
	// TxQueueLen is the length of a queue in packets.
	TxQueueLen int
	RateBps    uint64 // rate of the link, bits per second; 0 = the driver does not report it
	XDPProg    uint32 // id of the program attached now, 0 = none
}

// FindIface looks an interface up in the current network namespace.
func FindIface(name string) (Iface, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		var nf netlink.LinkNotFoundError
		if errors.As(err, &nf) {
			return Iface{}, fmt.Errorf("%s: no such interface in this network namespace (see `ip link`)", name)
		}
		return Iface{}, fmt.Errorf("%s: %w", name, err)
	}
	a := l.Attrs()
	i := Iface{Link: l, Name: a.Name, Index: a.Index, MTU: a.MTU, TxQueues: a.NumTxQueues, TxQueueLen: a.TxQLen}
	copy(i.MAC[:], a.HardwareAddr)
	if a.Xdp != nil && a.Xdp.Attached {
		i.XDPProg = a.Xdp.ProgId
	}
	i.RateBps = LinkRate(a.Name)
	return i, nil
}

// checkEthernet refuses interfaces without Ethernet headers, which the data plane cannot
// parse.
func (i Iface) checkEthernet() error {
	switch enc := i.Link.Attrs().EncapType; enc {
	case "ether", "loopback":
		return nil
	default:
		return fmt.Errorf("%s is no Ethernet interface (link type %q): RoCEv2 needs one", i.Name, enc)
	}
}

// LinkRate returns the rate that the driver of an interface reports, in bits per second; 0 = unknown.
func LinkRate(name string) uint64 {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return 0
	}
	defer e.Close()
	settings, err := e.CmdGetMapped(name)
	if err != nil {
		return 0
	}
	mbit := settings["speed"]
	if mbit == 0 || mbit >= 0xffff_ffff || mbit == uint64(^uint16(0)) {
		return 0
	}
	return mbit * 1_000_000
}

// programName describes an XDP program for an error message, by its name and its ID.
func programName(id uint32) string {
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return fmt.Sprintf("program %d", id)
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return fmt.Sprintf("program %d", id)
	}
	return fmt.Sprintf("program %q (id %d)", info.Name, id)
}

// checkPrivileges returns an error that names the capabilities that are missing, before an
// operation fails half-way with EPERM.
func checkPrivileges() error {
	var hdr unix.CapUserHeader
	var data [2]unix.CapUserData
	hdr.Version = unix.LINUX_CAPABILITY_VERSION_3
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return nil // unknown: the operations themselves fail
	}
	has := func(c uint) bool { return data[c/32].Effective&(1<<(c%32)) != 0 }
	var missing []string
	for _, c := range []struct {
		bit  uint
		name string
	}{{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {unix.CAP_NET_RAW, "CAP_NET_RAW"}, {unix.CAP_BPF, "CAP_BPF"}, {unix.CAP_PERFMON, "CAP_PERFMON"}} {
		// CAP_SYS_ADMIN stands for the BPF ones, as before Linux 5.8.
		if !has(c.bit) && !(has(unix.CAP_SYS_ADMIN) && c.bit >= unix.CAP_PERFMON) {
			missing = append(missing, c.name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing capabilities %v: run as root (uid now %d) or grant them", missing, os.Geteuid())
	}
	return nil
}
