// SPDX-License-Identifier: Apache-2.0

package sides

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/engine"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

// EngineSide is the engine, in this process, on a host of this kernel on a machine's bridge. The product is
// attached there by the real binary, with its agent running. Close it before the host.
type EngineSide struct {
	*Device
	Dev *nic.Device

	host *rxepeer.Host
	bin  string
	opts loader.Options
}

var _ oracle.Hub = (*EngineSide)(nil)

// AttachEngine attaches the product to eth0 of the host, with these flags of `softroce-xdp attach`, and
// opens the engine there.
func AttachEngine(host *rxepeer.Host, flags ...string) (*EngineSide, error) {
	bin, err := engines.Binary()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "oracle-self-")
	if err != nil {
		return nil, err
	}
	s := &EngineSide{
		host: host, bin: bin,
		opts: loader.Options{PinRoot: "/sys/fs/bpf/" + filepath.Base(dir), RunDir: dir},
	}
	if out, err := s.Product(append([]string{"attach", rxepeer.HostIface}, flags...)...); err != nil {
		return nil, errors.Join(fmt.Errorf("attach: %w\n%s%s", err, out, s.Log()), s.Close())
	}
	err = host.Do(func() (err error) {
		s.Dev, err = engine.Open(rxepeer.HostIface, s.opts, nic.Options{})
		return err
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	var addrs []netip.Addr
	for _, p := range host.Config.Addrs {
		addrs = append(addrs, p.Addr())
	}
	s.Device = &Device{s.Dev, host.Config.Name, addrs, newRegion}
	return s, nil
}

// Product runs a command line of the product on the host.
func (s *EngineSide) Product(args ...string) (string, error) {
	args = append(args, "--pin-root", s.opts.PinRoot, "--run-dir", s.opts.RunDir)
	var out []byte
	err := s.host.Do(func() (err error) {
		out, err = exec.Command(s.bin, args...).CombinedOutput()
		return err
	})
	return string(out), err
}

// Start starts a command line of the product on the host, and returns it and what it prints. It is
// killed when ctx ends.
func (s *EngineSide) Start(ctx context.Context, args ...string) (*exec.Cmd, io.Reader, error) {
	cmd := exec.CommandContext(ctx, s.bin, append(args, "--pin-root", s.opts.PinRoot, "--run-dir", s.opts.RunDir)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return cmd, out, s.host.Do(cmd.Start)
}

// CloseEngine closes the engine: another process may open one. The product stays attached.
func (s *EngineSide) CloseEngine() error {
	dev := s.Dev
	s.Dev = nil
	return dev.Close()
}

// Log is the agent's.
func (s *EngineSide) Log() string {
	b, _ := os.ReadFile(loader.LogPath(s.opts.RunDir, rxepeer.HostIface))
	return string(b)
}

// Close closes the engine and detaches the product.
func (s *EngineSide) Close() error {
	var errs []error
	if s.Dev != nil {
		errs = append(errs, s.Dev.Close())
	}
	if _, err := os.Stat(loader.PinDir(s.opts.PinRoot, rxepeer.HostIface)); err == nil {
		if out, err := s.Product("detach", rxepeer.HostIface); err != nil {
			errs = append(errs, fmt.Errorf("detach: %w\n%s", err, out))
		}
	}
	if err := os.Remove(s.opts.PinRoot); err != nil && !errors.Is(err, unix.ENOENT) {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, os.RemoveAll(s.opts.RunDir))...)
}

// Counter returns a counter of the engine by its name.
func (s *EngineSide) Counter(name string) (uint64, error) {
	for _, c := range s.Dev.Counters() {
		if c.Name == name {
			return c.Value, nil
		}
	}
	return 0, fmt.Errorf("the engine has no counter %q", name)
}
