// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// An address at which no host can be is refused at once, and not after all repetitions.
func TestNoHostAtAddress(t *testing.T) {
	service := mad.IPServiceID(mad.PortTCP, 7174)
	for peer, ok := range map[string]bool{
		"10.0.0.2": true, "0.0.0.0": false, "224.0.0.1": false,
		"fd00::2": true, "::": false, "ff02::1": false, "::ffff:0.0.0.0": false,
	} {
		to := netip.MustParseAddr(peer)
		from := netip.MustParseAddr("10.0.0.1")
		if to.Unmap().Is6() {
			from = netip.MustParseAddr("fd00::1")
		}
		m := cm.New(cm.Config{})
		_, err := m.Connect(0, cm.ConnectParams{Local: from, Peer: to, Service: service, QPN: 5, Attr: verbs.DefaultAttr()})
		if (err == nil) != ok {
			t.Errorf("connect to %s: %v", peer, err)
		}
		_, err = m.Resolve(0, cm.ResolveParams{Local: from, Peer: to, Service: service})
		if (err == nil) != ok {
			t.Errorf("resolve %s: %v", peer, err)
		}
	}
}
