// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

var update = flag.Bool("update", false, "TestCaptures: replace the golden captures in rocev2/testdata/captures")

const (
	captureDir = "../../rocev2/testdata/captures"
	maxCapture = 50_000 // bytes of a golden capture
)

// short makes an exchange one of few and short packets: 5 messages of 1021 bytes,
// at PMTU 256 where the program lets us choose.
func short(x rxepeer.Exchange) rxepeer.Exchange {
	for _, argv := range []*[]string{&x.Server, &x.Client} {
		if x.Name == "rping" {
			*argv = replaceFlag(replaceFlag(*argv, "-C", "2"), "-S", "601")
			continue
		}
		*argv = replaceFlag(replaceFlag(*argv, "-n", "5"), "-s", "1021")
		if x.Name != "send UD" {
			*argv = slices.Insert(*argv, 1, "-m", "256")
		}
	}
	return x
}

// golden are the captures of traffic, by file name, with their exchanges.
var golden = []struct {
	name      string
	exchanges []string
}{
	{"rc-write", []string{"write"}},
	{"rc-read", []string{"read"}},
	{"rc-send", []string{"send"}},
	{"rc-atomic", []string{"fetch and add", "compare and swap"}},
	{"uc", []string{"write UC", "send UC"}},
	{"ud", []string{"send UD"}},
	{"cm", []string{"rping"}},
}

// TestCaptures takes the golden captures of rocev2/testdata/captures anew: each
// kind of traffic over IPv4 and IPv6, plain and with the product attached, and
// the HELLO exchange. With -update they replace the committed ones; without, they
// only show that the recipe still works.
func TestCaptures(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	p := bootPair(ctx, t, 1500, rxepeer.Debian13)
	dir := t.TempDir()
	if *update {
		dir = captureDir
	}
	take := func(name string, keep func(rocev2.Packet) bool, f func()) {
		file := filepath.Join(dir, name+".pcap")
		c, err := p.net.Capture(file, rxepeer.CaptureConfig{
			Iface: rxepeer.TapName("b", 0), Max: 1000,
			Keep: func(frame []byte) bool {
				q, err := rocev2.ParseFrame(frame)
				return err == nil && keep(q)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		f()
		stats, err := c.Stop()
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d packets, %d bytes", name, stats.Written, info.Size())
		if stats.Written == 0 || stats.Dropped > 0 || info.Size() > maxCapture {
			t.Errorf("%s: %+v, %d bytes; want some packets, none dropped, at most %d bytes", name, stats, info.Size(), maxCapture)
		}
		if w := readCapture(t, file); w.badICRC > 0 {
			t.Errorf("%s: %+v", name, w)
		}
	}
	control := func(q rocev2.Packet) bool { return q.BTH().DestQP() == rocev2.ControlQPN }
	data := func(q rocev2.Packet) bool { return !control(q) } // agents send HELLO and ECHO at any time
	traffic := func(suffix string) {
		for _, g := range golden {
			take(g.name+suffix, data, func() {
				p.exchanges(ctx, t, g.name+suffix, func(r rxepeer.Route) []rxepeer.Exchange {
					var xs []rxepeer.Exchange
					for _, x := range rxepeer.Exchanges(r) {
						if slices.Contains(g.exchanges, x.Name) {
							xs = append(xs, short(x))
						}
					}
					return xs
				})
			})
		}
	}
	traffic("")
	take("hello", control, func() { p.attach(ctx, t) })
	traffic("-stamped")
}
