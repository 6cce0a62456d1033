// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/samples"
)

// testContext skips on a host that cannot run machines, and bounds the test.
func testContext(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("boots machines")
	}
	if err := CheckHost(); err != nil {
		require.Skip(t, err.Error())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// bootPair boots machines a and b on one bridge, with addresses .1 and .2, ::1 and ::2.
func bootPair(ctx context.Context, t *testing.T, nic NIC) (*Net, *VM, *VM) {
	t.Helper()
	img, err := EnsureImage(ctx, Debian13)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("image: cached %v, built in %v, initrd %d MB", img.Cached, img.BuildTime.Round(time.Second), img.InitrdBytes>>20)
	mtu := max(nic.MTU, 1500)
	n, err := NewNet(mtu)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	nic.Net, nic.MTU = n, mtu
	vms, err := BootAll(ctx,
		Config{Name: "a", Image: img, NICs: []NIC{nic.at("10.77.0.1/24", "fd77::1/64")}},
		Config{Name: "b", Image: img, NICs: []NIC{nic.at("10.77.0.2/24", "fd77::2/64")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, vm := range vms {
		t.Log(vm.Describe())
		t.Cleanup(func() {
			if err := vm.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return n, vms[0], vms[1]
}

func (n NIC) at(addrs ...string) NIC {
	n.Addrs = nil
	for _, a := range addrs {
		n.Addrs = append(n.Addrs, netip.MustParsePrefix(a))
	}
	return n
}

func counters(ctx context.Context, t *testing.T, vm *VM) Counters {
	t.Helper()
	c, err := vm.RxeCounters(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestExchanges shows that two plain rxe machines carry every kind of traffic with no error
// counted: the ground that tests of the product stand on.
func TestExchanges(t *testing.T) {
	ctx := testContext(t)
	n, a, b := bootPair(ctx, t, NIC{})
	for _, v6 := range []bool{false, true} {
		route, err := RouteTo(ctx, b, a, v6)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range Exchanges(route) {
			t.Run(route.Addr.String()+" "+x.Name, func(t *testing.T) {
				const tries = 5 // a machine that this host pauses is late, and rxe sends again
				for i := 1; ; i++ {
					err := exchangeOnce(ctx, t, n, a, b, x)
					if err == nil {
						return
					}
					if i == tries {
						t.Fatal(err)
					}
					t.Logf("again: %v", err)
				}
			})
		}
	}
}

// exchangeOnce returns what was not as it is between machines that nothing disturbs.
func exchangeOnce(ctx context.Context, t *testing.T, n *Net, a, b *VM, x Exchange) error {
	t.Helper()
	beforeA, beforeB := counters(ctx, t, a), counters(ctx, t, b)
	file := filepath.Join(t.TempDir(), "wire.pcap")
	capture, err := n.Capture(file, CaptureConfig{Iface: TapName("a", 0), Max: 100000, Keep: isRoCE})
	if err != nil {
		t.Fatal(err)
	}
	out, err := b.Exchange(ctx, a, x)
	stats, capErr := capture.Stop()
	if err := errors.Join(err, capErr); err != nil {
		return err
	}
	afterA, afterB := counters(ctx, t, a), counters(ctx, t, b)
	// What the drivers say they sent is what a capture sees.
	sent := afterA["sent_pkts"] - beforeA["sent_pkts"] + afterB["sent_pkts"] - beforeB["sent_pkts"]
	if stats.Dropped > 0 || stats.Full || uint64(stats.Written) != sent || len(samples.Frames(t, file)) != stats.Written {
		return fmt.Errorf("capture: %+v, but rxe sent %d packets", stats, sent)
	}
	if sent == 0 {
		return errors.New("no RoCEv2 packet was sent")
	}
	for _, c := range []Counters{afterA.TroubleIn(x, beforeA), afterB.TroubleIn(x, beforeB)} {
		if len(c) > 0 {
			return fmt.Errorf("rxe counted trouble: %v", c)
		}
	}
	t.Logf("%d packets, client %v", sent, out.Client.Took.Round(time.Millisecond))
	return nil
}

// isRoCE tells UDP to port 4791 over untagged IPv4 without options or IPv6.
func isRoCE(f []byte) bool {
	const ipv4, ipv6, udp, roce = 0x0800, 0x86DD, 17, 4791
	if len(f) < 14+40+8 {
		return false
	}
	be := binary.BigEndian
	switch be.Uint16(f[12:]) {
	case ipv4:
		return f[14] == 0x45 && f[23] == udp && be.Uint16(f[36:]) == roce
	case ipv6:
		return f[20] == udp && be.Uint16(f[56:]) == roce
	}
	return false
}

// TestJumbo shows that an MTU of 4200 gives PMTU 4096, whose frames are the longest that the
// product has to handle.
func TestJumbo(t *testing.T) {
	ctx := testContext(t)
	n, a, b := bootPair(ctx, t, NIC{MTU: 4200})
	route, err := RouteTo(ctx, b, a, false)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "wire.pcap")
	capture, err := n.Capture(file, CaptureConfig{Iface: TapName("b", 0), Max: 100000, Keep: isRoCE})
	if err != nil {
		t.Fatal(err)
	}
	x := Exchanges(route)[0]
	if _, err := b.Exchange(ctx, a, x); err != nil {
		t.Fatal(err)
	}
	if _, err := capture.Stop(); err != nil {
		t.Fatal(err)
	}
	longest := 0
	for _, f := range samples.Frames(t, file) {
		longest = max(longest, len(f))
	}
	// Ethernet 14, IPv4 20, UDP 8, BTH 12, RETH 16, payload 4096, ICRC 4.
	if want := 4170; longest != want {
		t.Errorf("longest frame of %q: %d bytes, want %d", x.Name, longest, want)
	}
}
