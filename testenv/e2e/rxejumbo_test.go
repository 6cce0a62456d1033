// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// TestRxeJumbo is PMTU 4096: frames of several buffers, which native XDP takes by
// xdp.frags. Full FIRST packets over IPv6 have no room for the option.
func TestRxeJumbo(t *testing.T) {
	const mtu = 4200
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	p := bootPair(ctx, t, mtu, rxepeer.Debian13)
	control := p.exchanges(ctx, t, "without", long)
	if said := p.attach(ctx, t); !strings.Contains(said, "XDP native") {
		t.Errorf("attach says %q: not native", said)
	}
	// virtio_net drops long frames that meet a receive buffer from before native mode, which
	// has no headroom: once after attach a ring full, 1024 buffers or 500 frames.
	drops := p.driverDrops(ctx, t)
	p.exchanges(ctx, t, "first", long)
	t.Logf("virtio_net dropped %d frames on buffers from before attach", p.driverDrops(ctx, t)-drops)

	var got phase
	file := p.capture(t, "jumbo.pcap", func() { got = p.exchanges(ctx, t, "jumbo", long) })
	got.check(t, "jumbo", control)

	var full4, full4Stamped, over, under, underStamped int
	eachPacket(t, file, func(_ time.Time, q rocev2.Packet) {
		if q.BTH().DestQP() == rocev2.ControlQPN {
			return
		}
		_, err := q.Stamp()
		fits := q.IPLen()-len(q.Surplus())+rocev2.StampLen <= mtu
		switch {
		case !fits && err == nil:
			over++
		case fits && q.PayloadLen() > 0:
			under++
			if err == nil {
				underStamped++
			}
		}
		if !q.IsIPv6() && q.PayloadLen() == 4096 {
			full4++
			if err == nil {
				full4Stamped++
			}
		}
	})
	w := readCapture(t, file)
	t.Logf("on the wire: %+v; of 4096 bytes over IPv4 %d of %d stamped", w, full4Stamped, full4)
	if full4 == 0 || full4Stamped != full4 {
		t.Errorf("%d of %d full packets over IPv4 are stamped", full4Stamped, full4)
	}
	if under == 0 || underStamped != under || over > 0 {
		t.Errorf("of the packets with room for the option %d of %d are stamped; %d stamped ones exceed the MTU", underStamped, under, over)
	}
	if w.badICRC > 0 || w.strayEchos > 0 {
		t.Errorf("%d bad ICRCs, %d echoes of a T1 never sent", w.badICRC, w.strayEchos)
	}
	if want := 14 + mtu; w.longest != want {
		t.Errorf("longest frame %d bytes, want %d (MIDDLE packets over IPv6 with the option)", w.longest, want)
	}
}

// long are exchanges whose packets are as long as the MTU lets them be.
func long(r rxepeer.Route) []rxepeer.Exchange {
	var xs []rxepeer.Exchange
	for _, x := range rxepeer.Exchanges(r)[:3] { // write, read, send
		x.Server, x.Client = withSize(x.Server, "65535"), withSize(x.Client, "65535")
		xs = append(xs, x)
	}
	return xs
}
