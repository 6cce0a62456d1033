// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"net"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// An interface that is gone is ErrGone for applications, also where the idle engine notices it by its
// sockets, before the kernel's messages about links have come.
func TestSocketsNoticeGone(t *testing.T) {
	require.Root(t)
	runtime.LockOSThread() // never unlocked: the thread ends with the test, and with it its namespace
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "gone0", Flags: net.FlagUp}, PeerName: "gone1"}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	l, err := netlink.LinkByName("gone0")
	if err != nil {
		t.Fatal(err)
	}
	socks, err := xsk.OpenAll(xsk.Config{Ifindex: l.Attrs().Index, Mode: xsk.Copy, RxFrames: 128, TxFrames: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer socks.Close()
	e := bench(t)
	e.rails[0].socks = []*sock{{xsk: socks[0]}}
	if e.checkSockets(); e.failed != nil {
		t.Fatalf("while the interface is there: %v", e.failed)
	}
	if err := netlink.LinkDel(l); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if e.checkSockets(); e.failed != nil {
			break
		}
	}
	if !errors.Is(e.failed, verbs.ErrGone) {
		t.Errorf("the engine ends with %v, want %v", e.failed, verbs.ErrGone)
	}
}
