// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// poolLab is a memory pool on this machine: hosts in network namespaces, whose agents serve a device, and
// `softroce-pool serve` on the first of them. It needs root.
type poolLab struct {
	bin    string
	dir    string
	top    *topo.Topology
	server *topo.Cmd
	detach func() error // detaches all hosts
}

// newPoolLab starts hosts with the product attached. bin is the product's binary.
func newPoolLab(bin string, hosts int) (_ *poolLab, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("building network namespaces needs root: run it with sudo")
	}
	l := &poolLab{}
	if l.bin, err = filepath.Abs(bin); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if l.dir, err = os.MkdirTemp("", "softroce-pool-"); err != nil {
		return nil, err
	}
	if l.top, err = topo.New(topo.Spec{Hosts: topo.Hosts(hosts), StaticNeighbours: true, MTU: 9000}); err != nil {
		return nil, err
	}
	if _, l.detach, err = engines.Attach(l.top, l.bin, l.dir, "--nic", "--pacer", "none"); err != nil {
		return nil, err
	}
	return l, nil
}

// Host returns a host; 1 is the first one.
func (l *poolLab) Host(n int) *topo.Host { return l.top.Host(n) }

// Address is that of the server.
func (l *poolLab) Address() string { return l.Host(1).IPv4().String() }

// RunDir is where the agent of a host has its device's socket.
func (l *poolLab) RunDir(h *topo.Host) string { return filepath.Join(l.dir, h.Name()) }

// Command prepares softroce-xdp on a host.
func (l *poolLab) Command(ctx context.Context, h *topo.Host, args ...string) *topo.Cmd {
	return h.CommandContext(ctx, l.bin, append([]string{"--pin-root", "/sys/fs/bpf/" + h.Namespace(), "--run-dir", l.RunDir(h)}, args...)...)
}

// Pool prepares softroce-pool on a host. It is next to softroce-xdp.
func (l *poolLab) Pool(ctx context.Context, h *topo.Host, args ...string) *topo.Cmd {
	bin := filepath.Join(filepath.Dir(l.bin), "softroce-pool")
	return h.CommandContext(ctx, bin, append([]string{"--pin-root", "/sys/fs/bpf/" + h.Namespace(), "--run-dir", l.RunDir(h)}, args...)...)
}

// serveTimeout is how long a server may take until it answers.
const serveTimeout = 30 * time.Second

// Serve starts the server of the pool.
func (l *poolLab) Serve(ctx context.Context, args ...string) error {
	l.server = l.Pool(ctx, l.Host(1), append([]string{"serve", "--quiet"}, args...)...)
	if err := l.server.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(serveTimeout); ; time.Sleep(100 * time.Millisecond) {
		_, err := l.Status(ctx, 2)
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
	}
}

// Status asks the server from a host.
func (l *poolLab) Status(ctx context.Context, host int) (s lease.Status, err error) {
	out, err := l.Pool(ctx, l.Host(host), "status", "--json", l.Address()).Output()
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(out, &s)
}

// Close ends the server, detaches, and takes the hosts down.
func (l *poolLab) Close() error {
	var errs []error
	if l.server != nil {
		_ = l.server.Process.Signal(unix.SIGINT)
		if err := l.server.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("softroce-pool serve: %w", err))
		}
	}
	if l.detach != nil {
		errs = append(errs, l.detach())
	}
	if l.top != nil {
		errs = append(errs, l.top.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}
