// SPDX-License-Identifier: Apache-2.0

package poolbench

// Lab is a memory pool on this machine: hosts in network namespaces, whose agents serve
// a device, and `softroce-pool serve` on the first of them. It needs root.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Lab is the pool. Host 1 is the server.
type Lab struct {
	bin    string
	dir    string
	top    *topo.Topology
	server *topo.Cmd
	joined []*topo.Host // hosts with the product attached
}

// New starts hosts with the product attached. bin is the product's binary.
func New(bin string, hosts int) (_ *Lab, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("building network namespaces needs root: run it with sudo")
	}
	l := &Lab{}
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
	for _, h := range l.top.Hosts()[:hosts] {
		if out, err := l.Command(context.Background(), h, "attach", "--nic", "--pacer", "none", "eth0").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: softroce-xdp attach: %w\n%s", h.Name(), err, out)
		}
		l.joined = append(l.joined, h)
	}
	return l, nil
}

// Host returns a host; 1 is the first one.
func (l *Lab) Host(n int) *topo.Host { return l.top.Host(n) }

// Address is that of the server.
func (l *Lab) Address() string { return l.Host(1).IPv4().String() }

// RunDir is where the agent of a host has its device's socket.
func (l *Lab) RunDir(h *topo.Host) string { return filepath.Join(l.dir, h.Name()) }

// Command prepares softroce-xdp on a host.
func (l *Lab) Command(ctx context.Context, h *topo.Host, args ...string) *topo.Cmd {
	return h.CommandContext(ctx, l.bin, append([]string{"--pin-root", "/sys/fs/bpf/" + h.Namespace(), "--run-dir", l.RunDir(h)}, args...)...)
}

// Pool prepares softroce-pool on a host. It is next to softroce-xdp.
func (l *Lab) Pool(ctx context.Context, h *topo.Host, args ...string) *topo.Cmd {
	bin := filepath.Join(filepath.Dir(l.bin), "softroce-pool")
	return h.CommandContext(ctx, bin, append([]string{"--pin-root", "/sys/fs/bpf/" + h.Namespace(), "--run-dir", l.RunDir(h)}, args...)...)
}

// serveTimeout is how long a server may take until it answers.
const serveTimeout = 30 * time.Second

// Serve starts the server of the pool.
func (l *Lab) Serve(ctx context.Context, args ...string) error {
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
func (l *Lab) Status(ctx context.Context, host int) (s lease.Status, err error) {
	out, err := l.Pool(ctx, l.Host(host), "status", "--json", l.Address()).Output()
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(out, &s)
}

// Close ends the server, detaches, and takes the hosts down.
func (l *Lab) Close() error {
	var errs []error
	if l.server != nil {
		_ = l.server.Process.Signal(unix.SIGINT)
		if err := l.server.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("softroce-pool serve: %w", err))
		}
	}
	for _, h := range l.joined {
		if out, err := l.Command(context.Background(), h, "detach", "eth0").CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("%s: softroce-xdp detach: %w\n%s", h.Name(), err, strings.TrimSpace(string(out))))
		}
		errs = append(errs, os.RemoveAll("/sys/fs/bpf/"+h.Namespace()))
	}
	if l.top != nil {
		errs = append(errs, l.top.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}
