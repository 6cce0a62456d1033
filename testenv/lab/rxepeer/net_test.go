// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/samples"
)

func testNet(t *testing.T) *Net {
	t.Helper()
	if os.Geteuid() != 0 {
		require.Skip(t, "needs root for a network namespace")
	}
	n, err := NewNet(1500)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

func hasLink(t *testing.T, n *Net, name string) bool {
	t.Helper()
	err := n.do(func() error {
		_, err := netlink.LinkByName(name)
		return err
	})
	if err != nil && !errors.As(err, new(netlink.LinkNotFoundError)) {
		t.Fatal(err)
	}
	return err == nil
}

func TestTapLivesAsLongAsItsQueues(t *testing.T) {
	n := testNet(t)
	fds, err := n.addTap("a-t0", 4200, 4)
	if err != nil {
		t.Fatal(err)
	}
	if len(fds) != 4 || !hasLink(t, n, "a-t0") {
		t.Errorf("%d queues, tap there: %v", len(fds), hasLink(t, n, "a-t0"))
	}
	if _, err := n.addTap("a-t0", 1500, 1); err == nil {
		t.Error("a second tap of the same name was made")
	}
	if err := closeAll(fds); err != nil {
		t.Fatal(err)
	}
	if hasLink(t, n, "a-t0") {
		t.Error("the tap is still there")
	}
}

func TestTapOnMissingBridge(t *testing.T) {
	n := testNet(t)
	_, err := (&Net{NS: n.NS, Bridge: "nobr"}).addTap("a-t0", 1500, 1)
	if err == nil || !strings.Contains(err.Error(), "nobr") {
		t.Errorf("error %v", err)
	}
	if hasLink(t, n, "a-t0") {
		t.Error("a tap was left behind")
	}
}

// TestCapture sends frames through a veth pair and finds them in the file, the tagged one with its
// tag, which the kernel keeps apart from the frame.
func TestCapture(t *testing.T) {
	n := testNet(t)
	err := n.do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "v0"
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "v1"}
		peer := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v1"}}
		if err := errors.Join(netlink.LinkAdd(veth), netlink.LinkSetUp(veth), netlink.LinkSetUp(peer)); err != nil {
			return err
		}
		_, err0 := awaitUp("v0")
		_, err1 := awaitUp("v1")
		return errors.Join(err0, err1)
	})
	if err != nil {
		t.Fatal(err)
	}
	head := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}
	plain := append(bytes.Clone(head), 0x88, 0xB5, 'p', 'l', 'a', 'i', 'n')
	tagged := append(bytes.Clone(head), 0x81, 0x00, 0x00, 0x2A, 0x88, 0xB5, 't', 'a', 'g')
	other := append(bytes.Clone(head), 0x88, 0xB6, 'o', 't', 'h', 'e', 'r')
	sent := [][]byte{plain, other, tagged, plain}

	file := filepath.Join(t.TempDir(), "x.pcap")
	ours := func(f []byte) bool { return bytes.HasPrefix(f, head) && !bytes.Contains(f, []byte("other")) }
	c, err := n.Capture(file, CaptureConfig{Iface: "v1", Max: 100, Keep: ours})
	if err != nil {
		t.Fatal(err)
	}
	limited, err := n.Capture(filepath.Join(t.TempDir(), "y.pcap"), CaptureConfig{Iface: "v1", Max: 2, Keep: ours})
	if err != nil {
		t.Fatal(err)
	}
	var sock *os.File
	if err := n.do(func() (err error) { sock, err = packetSocket("v0"); return err }); err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	for _, f := range sent {
		if _, err := sock.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "three frames at the other end", func() bool {
		info, err := os.Stat(file)
		testkit.Must(t, err)
		return info.Size() >= int64(24+3*16+2*len(plain)+len(tagged)) // headers of the file and of each frame
	})
	stats, err := c.Stop()
	if err != nil || stats.Written != 3 || stats.Dropped != 0 || stats.Full {
		t.Errorf("stats %+v, error %v", stats, err)
	}
	if stats, err := limited.Stop(); err != nil || stats.Written != 2 || !stats.Full {
		t.Errorf("limited: stats %+v, error %v", stats, err)
	}
	got := samples.Frames(t, file)
	for i, want := range [][]byte{plain, tagged, plain} {
		if i >= len(got) || !bytes.Equal(got[i], want) {
			t.Errorf("frame %d of %q, want %q", i, got, want)
		}
	}
}

func TestCaptureErrors(t *testing.T) {
	n := testNet(t)
	if _, err := n.Capture(filepath.Join(t.TempDir(), "x"), CaptureConfig{Iface: "nope", Max: 1}); err == nil || !strings.Contains(err.Error(), "nope") {
		t.Errorf("missing interface: %v", err)
	}
	if _, err := n.Capture(filepath.Join(t.TempDir(), "x"), CaptureConfig{Iface: ownBridge}); err == nil || !strings.Contains(err.Error(), "Max") {
		t.Errorf("unbounded: %v", err)
	}
}

func TestNetCloseTwice(t *testing.T) {
	n := testNet(t)
	for range 2 {
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
