// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The files of a device have its facts in the form of the kernel.
func TestDeviceFiles(t *testing.T) {
	d := verbsDevice{
		iface: "eth0.7",
		port: verbs.Port{Active: true, GIDs: []netip.Addr{
			netip.MustParseAddr("fe80::12:34ff:fe56:789a"), {}, netip.MustParseAddr("10.53.0.1"),
		}},
		mac: net.HardwareAddr{0x02, 0x12, 0x34, 0x56, 0x78, 0x9a}, rateBps: 25e9,
	}
	files, links := d.files()
	want := map[string]string{
		"node_type": "1: CA\n", "node_desc": "softroce_eth0.7\n",
		"node_guid": "0012:34ff:fe56:789a\n", "sys_image_guid": "0012:34ff:fe56:789a\n",
		"ports/1/state": "4: ACTIVE\n", "ports/1/phys_state": "5: LinkUp\n", "ports/1/link_layer": "Ethernet\n",
		"ports/1/lid": "0x0\n", "ports/1/pkeys/0": "0xffff\n", "ports/1/rate": "25 Gb/sec (1X EDR)\n",
		"ports/1/gids/0":            "fe80:0000:0000:0000:0012:34ff:fe56:789a\n",
		"ports/1/gids/1":            "0000:0000:0000:0000:0000:0000:0000:0000\n",
		"ports/1/gids/2":            "0000:0000:0000:0000:0000:ffff:0a35:0001\n",
		"ports/1/gid_attrs/types/0": "RoCE v2\n", "ports/1/gid_attrs/ndevs/0": "eth0.7\n",
		"ports/1/gid_attrs/types/2": "RoCE v2\n", "ports/1/gid_attrs/ndevs/2": "eth0.7\n",
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"device/net/eth0.7": "../../../../net/eth0.7"}, links); diff != "" {
		t.Error(diff)
	}
	d.onBus = true
	if _, links := d.files(); !cmp.Equal(links, map[string]string{"device": "../../net/eth0.7/device"}) {
		t.Errorf("links of an interface on a bus: %v", links)
	}
}

// Facts that are unknown have no file, and a port that is down says so.
func TestDeviceFilesUnknown(t *testing.T) {
	files, _ := (&verbsDevice{iface: "eth0"}).files()
	for _, path := range []string{"node_guid", "sys_image_guid", "ports/1/rate", "ports/1/gids/0", "ports/1/gid_attrs/types/0"} {
		if text, ok := files[path]; ok {
			t.Errorf("%s has %q", path, text)
		}
	}
	if files["ports/1/state"] != "1: DOWN\n" || files["ports/1/phys_state"] != "3: Disabled\n" {
		t.Errorf("state %q, %q", files["ports/1/state"], files["ports/1/phys_state"])
	}
}

// Names of interfaces become names of devices and of directories.
func TestDeviceName(t *testing.T) {
	for iface, want := range map[string]string{"eth0": "softroce_eth0", "a-b_c.7": "softroce_a-b_c.7", "x:1@ä": "softroce_x_1__"} {
		if got := (&verbsDevice{iface: iface}).name(); got != want {
			t.Errorf("%s: %s, want %s", iface, got, want)
		}
	}
}

// A rate is reported as the next InfiniBand speed, as the kernel reports it for RoCE.
func TestRateText(t *testing.T) {
	for bps, want := range map[uint64]string{
		1: "2.5 Gb/sec (1X SDR)\n", 10e9: "10 Gb/sec (1X FDR10)\n", 10e9 + 1: "20 Gb/sec (4X DDR)\n",
		100e9: "100 Gb/sec (4X EDR)\n", 800e9: "400 Gb/sec (4X NDR)\n",
	} {
		if got := rateText(bps); got != want {
			t.Errorf("%d bit/s: %q, want %q", bps, got, want)
		}
	}
}

// The library of this project comes before others, and the rest of the environment stays.
func TestRunEnvironment(t *testing.T) {
	devices := []*verbsDevice{{iface: "eth0"}, {iface: "eth1"}}
	for _, c := range []struct{ before, want string }{
		{"LD_LIBRARY_PATH=/opt/lib:", "LD_LIBRARY_PATH=/our/lib:/opt/lib:"},
		{"LD_LIBRARY_PATH=", "LD_LIBRARY_PATH=/our/lib"},
		{"X=1", "LD_LIBRARY_PATH=/our/lib"},
	} {
		got := environment([]string{"HOME=/root", c.before, "SOFTROCE_DEV=old"}, "/our/lib", "/run/dir", devices)
		for _, v := range []string{"HOME=/root", c.want, "SOFTROCE_DEV=eth0,eth1", "SOFTROCE_RUN_DIR=/run/dir"} {
			if !slices.Contains(got, v) {
				t.Errorf("with %s, %q has no %s", c.before, got, v)
			}
		}
		if slices.Contains(got, "SOFTROCE_DEV=old") || c.before != "X=1" && slices.Contains(got, c.before) {
			t.Errorf("with %s: %q", c.before, got)
		}
	}
}
