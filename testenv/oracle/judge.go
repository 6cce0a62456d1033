// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
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

	mu      sync.Mutex
	gids    map[netip.Addr]int // own addresses
	objects map[uint64]any     // regions, windows, queue pairs and shared receive queues by handle
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
	j := &Judge{VM: vm, gids: map[netip.Addr]int{}, objects: map[uint64]any{}}
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

// do sends one command that does not wait in the helper, and returns the fields of its answer.
func (j *Judge) do(format string, args ...any) (fields, error) {
	all, err := j.conn.ask([]string{fmt.Sprintf(format, args...)})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// doAll sends commands at once.
func (j *Judge) doAll(lines []string) error {
	_, err := j.conn.ask(lines)
	return err
}

// avArgs is an address vector as the helper reads it.
func (j *Judge) avArgs(av verbs.AddressVector) (string, error) {
	sgid, err := j.sgid(av.Src)
	return fmt.Sprintf(" dgid=%s sgid=%d", gid(av.Dst), sgid), err
}

// sgid is the index of the GID of an own address.
func (j *Judge) sgid(own netip.Addr) (int, error) {
	j.mu.Lock()
	index, ok := j.gids[own]
	j.mu.Unlock()
	if ok {
		return index, nil
	}
	got, err := j.do("gid gid=%s", gid(own))
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

// AsyncEvent returns the next event, or nil when wait has passed. An event that package verbs does not
// have is of type 0.
func (j *Judge) AsyncEvent(ctx context.Context, wait time.Duration) (*verbs.Event, error) {
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
		e := &verbs.Event{Type: events[kind]}
		j.mu.Lock()
		defer j.mu.Unlock()
		switch o := j.objects[handle].(type) {
		case *judgeQP:
			e.QP = o
		case *judgeSRQ:
			e.SRQ = o
		}
		return e, nil
	}
}

// slice is how long the helper, which works on one command at a time, may wait in one.
const slice = 500 * time.Millisecond

func millis(d time.Duration) int64 { return max(0, d.Milliseconds()) }
