// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"fmt"
	"strings"

	"github.com/safchain/ethtool"
)

// vlanParse are the features of an interface that remove VLAN tags on arrival: the kernel's name, and that of
// `ethtool -K`.
var vlanParse = [...]struct{ feature, option string }{
	{"rx-vlan-hw-parse", "rx-vlan-offload"}, // 802.1Q
	{"rx-vlan-stag-hw-parse", "rx-vlan-stag-hw-parse"},
}

// HiddenTags says that an interface removes VLAN tags before the XDP program runs, and what to do about it. It
// returns "" if it does not, or if the driver does not tell. The tag is in metadata then, which only programs
// that are bound to the device can read (Documentation/networking/xdp-rx-metadata.rst). The interface must be
// in the network namespace of the calling thread.
func HiddenTags(ifname string) string {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return ""
	}
	defer e.Close()
	driver, err := e.DriverName(ifname)
	if err != nil {
		return ""
	}
	features, err := e.FeaturesWithState(ifname)
	if err != nil {
		return ""
	}
	return hiddenTags(ifname, driver, features)
}

func hiddenTags(ifname, driver string, features map[string]ethtool.FeatureState) string {
	if driver == "veth" {
		return "" // it keeps what its other end sends, whatever its features say
	}
	var options []string
	fixed := false
	for _, v := range vlanParse {
		if f := features[v.feature]; f.Active {
			options = append(options, v.option+" off")
			fixed = fixed || !f.Available || f.NeverChanged
		}
	}
	const why = "the NIC removes VLAN tags, so RoCEv2 of every VLAN seems untagged"
	switch {
	case len(options) == 0:
		return ""
	case fixed:
		return why + ", and the driver cannot stop that: let the switch deliver no tagged frames"
	}
	return fmt.Sprintf("%s: `ethtool -K %s %s`", why, ifname, strings.Join(options, " "))
}
