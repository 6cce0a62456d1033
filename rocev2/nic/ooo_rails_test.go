// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// What UseRails cannot do is refused with an error that says what to do.
func TestUseRailsRefuses(t *testing.T) {
	d, err := OpenLoopback(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := d.CreateCQ(16)
	if err != nil {
		t.Fatal(err)
	}
	to := verbs.AddressVector{Dst: netip.MustParseAddr("192.0.2.1")}
	from := to
	from.Src = netip.MustParseAddr("192.0.2.2")
	for _, c := range []struct {
		order bool
		to    verbs.AddressVector
		want  string
	}{
		{false, to, "create it with QPInit.OutOfOrder"},
		{true, to, "the device has 0 further interfaces: open it with more"},
		{true, from, "none of the 0 further interfaces of the device has the address 192.0.2.2"},
	} {
		x, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, OutOfOrder: c.order})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.(verbs.RailQP).UseRails(c.to); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
		if err := x.(verbs.RailQP).UseRails(); c.order && err != nil {
			t.Errorf("no further interface: %v", err)
		}
		if err := x.Destroy(); err != nil {
			t.Error(err)
		}
	}
	if o := (Options{Rails: make([]Rail, MaxRails+1)}); o.check() == nil {
		t.Errorf("%d further interfaces are not refused", len(o.Rails))
	}
}
