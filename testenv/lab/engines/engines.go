// SPDX-License-Identifier: Apache-2.0

// Package engines puts the product with an engine of this process on every host of
// a topology, for tests.
package engines

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/engine"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Binary is the path of the static binary, made once in a process.
func Binary() (string, error) { return build() }

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "softroce-engines-")
	if err != nil {
		return "", err
	}
	built = dir
	bin := filepath.Join(dir, "softroce-xdp")
	cmd := exec.Command("go", "build", "-o", bin, "github.com/softroce/softroce-xdp/cmd/softroce-xdp")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the product: %w\n%s", err, out)
	}
	return bin, nil
})

var built string // the directory of the binary, once there is one

// RemoveBinary removes what the tests built; for TestMain.
func RemoveBinary() {
	if built != "" {
		os.RemoveAll(built)
	}
}

// Main is a TestMain that does no more than RemoveBinary.
func Main(m *testing.M) {
	code := m.Run()
	RemoveBinary()
	os.Exit(code)
}

// Host is one host with the product attached and perhaps an engine.
type Host struct {
	*topo.Host
	Dev  *nic.Device
	opts loader.Options
	bin  string
}

// New attaches the product to eth0 of every host of a topology, by the real binary,
// with these flags. Engines are opened by Open.
func New(t testing.TB, spec topo.Spec, flags ...string) []*Host {
	t.Helper()
	return On(t, topo.ForTest(t, spec), flags...)
}

// On is New for a topology that exists.
func On(t testing.TB, top *topo.Topology, flags ...string) []*Host {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	hosts, detach, err := Attach(top, bin, t.TempDir(), flags...)
	t.Cleanup(func() {
		if err := detach(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

// Attach is On for who is no test, with the binary bin and a directory for run time files.
// detach takes all of it back, also where Attach has failed.
func Attach(top *topo.Topology, bin, dir string, flags ...string) (hosts []*Host, detach func() error, err error) {
	return AttachEach(top, bin, dir, func(int) []string { return flags })
}

// AttachEach is Attach with the flags of each host, which are numbered from 0.
func AttachEach(top *topo.Topology, bin, dir string, flags func(host int) []string) (hosts []*Host, detach func() error, err error) {
	detach = func() error {
		var errs []error
		for _, h := range hosts {
			errs = append(errs, h.detach())
		}
		return errors.Join(errs...)
	}
	for i, th := range top.Hosts() {
		h := &Host{Host: th, bin: bin, opts: loader.Options{PinRoot: "/sys/fs/bpf/" + th.Namespace(), RunDir: filepath.Join(dir, th.Name())}}
		hosts = append(hosts, h)
		if err := os.MkdirAll(h.opts.RunDir, 0o755); err != nil {
			return hosts, detach, err
		}
		if out, err := h.Product(append([]string{"attach", topo.IfName}, flags(i)...)...); err != nil {
			return hosts, detach, fmt.Errorf("%s: %w\n%s%s", h.Name(), err, out, h.Log())
		}
	}
	return hosts, detach, nil
}

// detach takes the engine and the product from a host.
func (h *Host) detach() (err error) {
	if h.Dev != nil {
		_ = h.Dev.Close()
	}
	if _, statErr := os.Stat(loader.PinDir(h.opts.PinRoot, topo.IfName)); statErr == nil {
		if out, detachErr := h.Product("detach", topo.IfName); detachErr != nil {
			err = fmt.Errorf("%s: %w\n%s", h.Name(), detachErr, out)
		}
	}
	os.Remove(h.opts.PinRoot)
	return err
}

// Product runs a command line of the product on the host.
func (h *Host) Product(args ...string) (string, error) {
	args = append(args, "--pin-root", h.opts.PinRoot, "--run-dir", h.opts.RunDir)
	out, err := h.Command(h.bin, args...).CombinedOutput()
	return string(out), err
}

// Log is the agent's.
func (h *Host) Log() string {
	b, _ := os.ReadFile(loader.LogPath(h.opts.RunDir, topo.IfName))
	return string(b)
}

// LoaderOptions are those by which the product is found on this host.
func (h *Host) LoaderOptions() loader.Options { return h.opts }

// Open opens the host's engine.
func (h *Host) Open(o nic.Options) (d *nic.Device, err error) {
	err = h.Do(func() (err error) {
		d, err = engine.Open(topo.IfName, h.opts, o)
		return err
	})
	if err == nil {
		h.Dev = d
	}
	return d, err
}

// Close closes the engines of hosts that have one.
func Close(hosts []*Host) error {
	var errs []error
	for _, h := range hosts {
		if h.Dev != nil {
			errs = append(errs, h.Dev.Close())
			h.Dev = nil
		}
	}
	return errors.Join(errs...)
}

// MustOpen is Open for tests that need one.
func (h *Host) MustOpen(t testing.TB, o nic.Options) *nic.Device {
	t.Helper()
	d, err := h.Open(o)
	if err != nil {
		t.Fatalf("%s: %v", h.Name(), err)
	}
	return d
}

// Attachment reads the host's maps.
func (h *Host) Attachment(t testing.TB) *loader.Attachment {
	t.Helper()
	a, err := loader.Open(topo.IfName, h.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// Addr is the host's address of one family.
func (h *Host) Addr(v6 bool) netip.Addr {
	if v6 {
		return h.IPv6()
	}
	return h.IPv4()
}

// Access are all the rights there are.
const Access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// Connect brings two queue pairs to RTS, each with the address of the other. For UD
// only the states and Q_Key 7 are set.
func Connect(a, b verbs.QP, addrA, addrB netip.Addr, pmtu rocev2.PMTU) error {
	return ConnectAttr(a, b, addrA, addrB, func(x *verbs.Attr) { x.PMTU = pmtu })
}

// ConnectAttr is Connect with attributes changed.
func ConnectAttr(a, b verbs.QP, addrA, addrB netip.Addr, change func(*verbs.Attr)) error {
	attr := verbs.DefaultAttr()
	change(&attr)
	const psn = 0xFFFFF0 // so that it wraps soon
	x := verbs.Endpoint{Addr: addrA, QPN: a.QPN(), PSN: psn, QKey: 7}
	y := verbs.Endpoint{Addr: addrB, QPN: b.QPN(), PSN: psn, QKey: 7}
	if err := verbs.Connect(a, x, y, attr); err != nil {
		return err
	}
	return verbs.Connect(b, y, x, attr)
}

// PollOne waits for one completion.
func PollOne(c verbs.CQ, limit time.Duration) (w verbs.Completion, err error) {
	var out [1]verbs.Completion
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Microsecond) {
		if c.Poll(out[:]) == 1 {
			return out[0], nil
		}
		if time.Now().After(deadline) {
			return w, fmt.Errorf("no completion after %v", limit)
		}
	}
}
