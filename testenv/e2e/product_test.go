// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

func TestMain(m *testing.M) {
	if to := os.Getenv(nobodyEnv); to != "" {
		if err := nobody(to); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	engines.Main(m)
}

func product(t testing.TB) string {
	t.Helper()
	bin, err := engines.Binary()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// node is the product on one host of a topology: the real binary, with pins and
// state of its own, since every host calls its interface eth0.
type node struct {
	host     *topo.Host
	bin, run string
	pins     string
}

func newNode(t testing.TB, h *topo.Host) *node {
	t.Helper()
	n := &node{host: h, bin: product(t), run: t.TempDir(), pins: "/sys/fs/bpf/" + h.Namespace()}
	t.Cleanup(func() {
		if _, err := os.Stat(loader.PinDir(n.pins, topo.IfName)); err == nil {
			if out, err := n.try("detach", topo.IfName); err != nil {
				t.Errorf("%s: %v\n%s", h.Name(), err, out)
			}
		}
		os.Remove(n.pins)
	})
	return n
}

func (n *node) options() loader.Options {
	return loader.Options{PinRoot: n.pins, RunDir: n.run}
}

// try runs a command line of the product on the host.
func (n *node) try(args ...string) (string, error) {
	args = append(args, "--pin-root", n.pins, "--run-dir", n.run)
	out, err := n.host.Command(n.bin, args...).CombinedOutput()
	return string(out), err
}

func (n *node) must(t testing.TB, args ...string) string {
	t.Helper()
	out, err := n.try(args...)
	if err != nil {
		log, _ := os.ReadFile(loader.LogPath(n.run, topo.IfName))
		t.Fatalf("%s: softroce-xdp %v: %v\n%s\nagent log:\n%s", n.host.Name(), args, err, out, log)
	}
	return out
}

// open reads the maps in this process.
func (n *node) open(t testing.TB) *loader.Attachment {
	t.Helper()
	a, err := loader.Open(topo.IfName, n.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}
