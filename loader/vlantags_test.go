// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"testing"

	"github.com/safchain/ethtool"
)

func TestHiddenTags(t *testing.T) {
	const why = "the NIC removes VLAN tags, so RoCEv2 of every VLAN seems untagged"
	type features = map[string]ethtool.FeatureState
	on, off := ethtool.FeatureState{Available: true, Active: true}, ethtool.FeatureState{Available: true}
	// As `ethtool -k` shows it: on [fixed].
	fixed, never := ethtool.FeatureState{Active: true}, ethtool.FeatureState{Available: true, Active: true, NeverChanged: true}
	for _, c := range []struct {
		name, driver string
		have         features
		want         string
	}{
		{"on", "mlx5_core", features{"rx-vlan-hw-parse": on}, why + ": `ethtool -K eth7 rx-vlan-offload off`"},
		{"service tags", "ice", features{"rx-vlan-hw-parse": off, "rx-vlan-stag-hw-parse": on},
			why + ": `ethtool -K eth7 rx-vlan-stag-hw-parse off`"},
		{"both", "ice", features{"rx-vlan-hw-parse": on, "rx-vlan-stag-hw-parse": on},
			why + ": `ethtool -K eth7 rx-vlan-offload off rx-vlan-stag-hw-parse off`"},
		{"fixed", "e1000e", features{"rx-vlan-hw-parse": fixed}, why + ", and the driver cannot stop that: let the switch deliver no tagged frames"},
		{"never changed", "e1000e", features{"rx-vlan-hw-parse": never}, why + ", and the driver cannot stop that: let the switch deliver no tagged frames"},
		{"off", "mlx5_core", features{"rx-vlan-hw-parse": off, "rx-vlan-stag-hw-parse": off}, ""},
		{"requested, not active", "mlx5_core", features{"rx-vlan-hw-parse": {Available: true, Requested: true}}, ""},
		{"only a filter", "virtio_net", features{"rx-vlan-filter": on}, ""},
		{"no features", "virtio_net", nil, ""},
		{"veth", "veth", features{"rx-vlan-hw-parse": on, "rx-vlan-stag-hw-parse": on}, ""},
	} {
		if got := hiddenTags("eth7", c.driver, c.have); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
