// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

//go:embed helper
var helperSources embed.FS

const (
	helperPath = "/usr/bin/rxejudge"
	portName   = "rxejudge"
)

// Prepare adds what a Judge needs to a machine's configuration: the helper, built once for its
// image, and a port.
func Prepare(ctx context.Context, cfg rxepeer.Config) (rxepeer.Config, error) {
	if cfg.Image == nil {
		img, err := rxepeer.EnsureImage(ctx, cfg.Release)
		if err != nil {
			return cfg, err
		}
		cfg.Image = img
	}
	sources, err := fs.Sub(helperSources, "helper")
	if err != nil {
		return cfg, err
	}
	helper, err := cfg.Image.CompileC(ctx, "rxejudge", sources, "ibverbs")
	if err != nil {
		return cfg, err
	}
	files := map[string]string{helperPath: helper}
	maps.Copy(files, cfg.Files)
	cfg.Files = files
	cfg.Ports = append(append([]string{}, cfg.Ports...), portName)
	return cfg, nil
}

// Judge is rxe0 of a machine, driven by verbs over a virtio-serial port. It is a Side.
type Judge struct {
	VM     *rxepeer.VM
	Device DeviceInfo

	conn *conn
	proc *rxepeer.Proc

	mu   sync.Mutex
	gids map[netip.Addr]int // own addresses
	qps  map[uint64]*judgeQP
	srqs map[uint64]*judgeSRQ
}

// DeviceInfo is what rxe0 says of itself.
type DeviceInfo struct {
	ActiveMTU, MaxMTU                         int // PMTU that the interface's MTU allows, and that rxe knows
	MaxQP, MaxSGE, MaxRdAtomic, MaxSRQ, MaxMW int
}

// Open starts the helper in a machine whose configuration went through Prepare, and opens rxe0. A
// machine has one Judge.
func Open(ctx context.Context, vm *rxepeer.VM) (*Judge, error) {
	port, err := vm.Port(portName)
	if err != nil {
		return nil, fmt.Errorf("oracle: %w (Prepare adds it)", err)
	}
	j := &Judge{VM: vm, gids: map[netip.Addr]int{}, qps: map[uint64]*judgeQP{}, srqs: map[uint64]*judgeSRQ{}}
	j.conn = newConn(vm.Config.Name, port)
	if j.proc, err = vm.Start(ctx, helperPath, portName); err != nil {
		return nil, err
	}
	go j.watch()
	if err := j.conn.hello(ctx); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	got, err := j.conn.do(ctx, "open dev=rxe0")
	if err == nil {
		j.Device, err = deviceInfo(got)
	}
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

func deviceInfo(f fields) (DeviceInfo, error) {
	var d DeviceInfo
	var errs []error
	for key, to := range map[string]*int{
		"active_mtu": &d.ActiveMTU, "max_mtu": &d.MaxMTU, "max_qp": &d.MaxQP, "max_sge": &d.MaxSGE,
		"max_rd_atomic": &d.MaxRdAtomic, "max_srq": &d.MaxSRQ, "max_mw": &d.MaxMW,
	} {
		n, err := f.number(key)
		*to = int(n)
		errs = append(errs, err)
	}
	return d, errors.Join(errs...)
}

// watch ends the calls that wait when the helper does.
func (j *Judge) watch() {
	_, err := j.proc.Wait(context.Background())
	out, errOut := j.proc.Output()
	j.conn.fail(fmt.Errorf("judge %s: the helper ended: %w\n%s%s", j.Name(), err, out, errOut))
}

// Close ends the helper; the kernel takes all that it made.
func (j *Judge) Close() error {
	j.conn.fail(fmt.Errorf("judge %s: closed", j.Name()))
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	if err := j.proc.Signal(unix.SIGKILL); err != nil {
		return nil // it has ended
	}
	if _, err := j.proc.Wait(ctx); err != nil {
		if _, ok := rxepeer.IsExit(err); !ok {
			return err
		}
	}
	return nil
}

// Name is the machine's.
func (j *Judge) Name() string { return j.VM.Config.Name }

// Addr is the first address of eth0 in a family.
func (j *Judge) Addr(v6 bool) (netip.Addr, error) {
	for _, p := range j.VM.Config.NICs[0].Addrs {
		if p.Addr().Is6() == v6 {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("judge %s: eth0 has no address of the family (IPv6: %v)", j.Name(), v6)
}

// sgid is the index of the own GID in the family of a peer's address.
func (j *Judge) sgid(ctx context.Context, peer netip.Addr) (int, error) {
	own, err := j.Addr(peer.Is6())
	if err != nil {
		return 0, err
	}
	j.mu.Lock()
	index, ok := j.gids[own]
	j.mu.Unlock()
	if ok {
		return index, nil
	}
	got, err := j.conn.do(ctx, "gid gid=%s", gid(own))
	if err != nil {
		return 0, err
	}
	n, err := got.number("index")
	if err != nil {
		return 0, err
	}
	j.mu.Lock()
	j.gids[own] = int(n)
	j.mu.Unlock()
	return int(n), nil
}

// gid is the GID of an address, in hex; IPv4 stands as ::ffff:a.b.c.d.
func gid(a netip.Addr) string {
	b := a.As16()
	return hex.EncodeToString(b[:])
}

// AsyncEvent returns the next event, or nil when wait has passed.
func (j *Judge) AsyncEvent(ctx context.Context, wait time.Duration) (*AsyncEvent, error) {
	for deadline := time.Now().Add(wait); ; {
		left := time.Until(deadline)
		got, err := j.conn.do(ctx, "async wait_ms=%d", millis(min(left, slice)))
		if err != nil {
			return nil, err
		}
		if n, err := got.number("n"); err != nil || n == 0 {
			if err != nil || left <= slice {
				return nil, err
			}
			continue
		}
		var kind, handle uint64
		if err := got.into(map[string]*uint64{"type": &kind, "handle": &handle}); err != nil {
			return nil, err
		}
		e := &AsyncEvent{Type: int(kind)}
		j.mu.Lock()
		if qp := j.qps[handle]; qp != nil {
			e.QP = qp
		}
		if srq := j.srqs[handle]; srq != nil {
			e.SRQ = srq
		}
		j.mu.Unlock()
		return e, nil
	}
}

// slice is how long the helper, which works on one command at a time, may wait in one.
const slice = 500 * time.Millisecond

func millis(d time.Duration) int64 { return max(0, d.Milliseconds()) }

// parseWC reads "id:status:op:len:flags:imm:qpn:src_qp:vendor".
func parseWC(s string) (Completion, error) {
	parts := strings.Split(s, ":")
	n := make([]uint64, len(parts))
	for i, p := range parts {
		var err error
		if n[i], err = strconv.ParseUint(p, 10, 64); err != nil {
			return Completion{}, fmt.Errorf("judge: completion %q: %w", s, err)
		}
	}
	if len(n) != 9 {
		return Completion{}, fmt.Errorf("judge: completion %q has %d fields, want 9", s, len(n))
	}
	c := Completion{ID: n[0], Status: Status(n[1]), QPN: uint32(n[6])}
	if c.Status != Success {
		return c, nil
	}
	const flagGRH, flagImm, flagInv = 1, 2, 8
	c.Op, c.Len, c.SrcQP, c.GRH = WCOp(n[2]), int(n[3]), uint32(n[7]), n[4]&flagGRH != 0
	imm := uint32(n[5])
	switch {
	case n[4]&flagImm != 0:
		c.Imm = &imm
	case n[4]&flagInv != 0:
		c.Inv = &imm
	}
	return c, nil
}
