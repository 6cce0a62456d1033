// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// verbsDevice has what the files of a device say.
type verbsDevice struct {
	iface string
	port  verbs.Port

	// These are zero if they are unknown, for example because the interface is in another network namespace.
	mac     net.HardwareAddr
	rateBps uint64 // rate of the link in bits per second
	onBus   bool   // sysfs has a directory for the device of a bus that the interface belongs to
}

// devicePrefix begins the names of devices.
const devicePrefix = "softroce_"

// name returns the name of the device, as the library makes it.
func (d *verbsDevice) name() string {
	return devicePrefix + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, d.iface)
}

// readInterface reads what the kernel knows of the interface, if this network namespace has it: an interface of the same
// name in another one has none of the addresses of the device.
func (d *verbsDevice) readInterface() {
	i, err := loader.FindIface(d.iface)
	if err != nil {
		return
	}
	addrs, _ := netlink.AddrList(i.Link, netlink.FAMILY_ALL)
	if !slices.ContainsFunc(addrs, func(a netlink.Addr) bool {
		ip, _ := netip.AddrFromSlice(a.IP)
		return slices.Contains(d.port.GIDs, ip.Unmap())
	}) {
		return
	}
	d.mac, d.rateBps = i.MAC[:], i.RateBps
	// The sysfs that is mounted may be that of another network namespace too.
	dir := filepath.Join("/sys/class/net", d.iface)
	mac, _ := os.ReadFile(filepath.Join(dir, "address"))
	_, err = os.Stat(filepath.Join(dir, "device/net", d.iface))
	d.onBus = err == nil && strings.TrimSpace(string(mac)) == d.mac.String()
}

// files returns the files of the device below /sys/class/infiniband/NAME: their texts by their paths, which are those
// of the kernel (Documentation/ABI/stable/sysfs-class-infiniband), and the targets of links by theirs. Facts that are
// unknown have no file.
func (d *verbsDevice) files() (files, links map[string]string) {
	files = map[string]string{
		"node_type":          "1: CA\n",
		"node_desc":          d.name() + "\n",
		"ports/1/state":      "1: DOWN\n",
		"ports/1/phys_state": "3: Disabled\n",
		"ports/1/link_layer": "Ethernet\n",
		"ports/1/lid":        "0x0\n",
		"ports/1/pkeys/0":    "0xffff\n",
	}
	if d.port.Active {
		files["ports/1/state"], files["ports/1/phys_state"] = "4: ACTIVE\n", "5: LinkUp\n"
	}
	if d.mac != nil {
		files["node_guid"] = guidText(d.mac)
		files["sys_image_guid"] = guidText(d.mac)
	}
	if d.rateBps > 0 {
		files["ports/1/rate"] = rateText(d.rateBps)
	}
	for i, gid := range d.port.GIDs {
		files[fmt.Sprintf("ports/1/gids/%d", i)] = gidText(gid)
		if gid.IsValid() {
			files[fmt.Sprintf("ports/1/gid_attrs/types/%d", i)] = "RoCE v2\n"
			files[fmt.Sprintf("ports/1/gid_attrs/ndevs/%d", i)] = d.iface + "\n"
		}
	}
	links = map[string]string{}
	if d.onBus {
		links["device"] = "../../net/" + d.iface + "/device"
	} else {
		links["device/net/"+d.iface] = "../../../../net/" + d.iface
	}
	return files, links
}

// gidText returns a GID as the kernel writes it: eight groups of four digits. An invalid address is the GID zero.
func gidText(a netip.Addr) string {
	var gid [16]byte
	if a.IsValid() {
		gid = a.As16()
	}
	return groups(gid[:])
}

// guidText returns the GUID of a device with a MAC address.
func guidText(mac net.HardwareAddr) string {
	p := verbs.Port{MAC: [6]byte(mac)}
	guid := p.GUID()
	return groups(guid[:])
}

// groups returns bytes as groups of four hexadecimal digits.
func groups(b []byte) string {
	var all []string
	for ; len(b) >= 2; b = b[2:] {
		all = append(all, fmt.Sprintf("%02x%02x", b[0], b[1]))
	}
	return strings.Join(all, ":") + "\n"
}

// linkRates are the speeds that InfiniBand has, by the rate of the interface up to which the kernel reports them for
// RoCE (ib_get_eth_speed).
var linkRates = []struct {
	bps  uint64
	text string
}{
	{1e9, "2.5 Gb/sec (1X SDR)"},
	{10e9, "10 Gb/sec (1X FDR10)"},
	{20e9, "20 Gb/sec (4X DDR)"},
	{25e9, "25 Gb/sec (1X EDR)"},
	{40e9, "40 Gb/sec (4X FDR10)"},
	{50e9, "50 Gb/sec (2X EDR)"},
	{100e9, "100 Gb/sec (4X EDR)"},
	{200e9, "200 Gb/sec (4X HDR)"},
}

// rateText returns the rate of a link as the kernel writes it.
func rateText(bps uint64) string {
	for _, r := range linkRates {
		if bps <= r.bps {
			return r.text + "\n"
		}
	}
	return "400 Gb/sec (4X NDR)\n"
}
