// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"sync"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/compute"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// constructor makes an object, and returns it as an application sees it: nil if `== nil` holds.
type constructor func(ctx context.Context) (any, error)

// ofInterface is for a constructor that returns an interface. A nil pointer in it is not nil.
func ofInterface[T any](v T, err error) (any, error) { return v, err }

// ofPointer is for a constructor that returns a pointer.
func ofPointer[T any](v *T, err error) (any, error) {
	if v == nil {
		return nil, err
	}
	return v, err
}

// constructors are all constructors of the device of e, and of the packages above it. peer is the address
// that they dial.
func constructors(d *client.Device, dir string, e *end, peer string) map[string]constructor {
	pd := e.pd.(*client.PD)
	memory := make([]byte, 64)
	group := mr.Group{{QPN: e.qp.QPN()}}
	executor, _ := task.NewExecutor(task.Config{})
	return map[string]constructor{
		"PD.CreateQP": func(context.Context) (any, error) {
			return ofInterface(pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq}))
		},
		"PD.CreateSRQ":      func(context.Context) (any, error) { return ofInterface(pd.CreateSRQ(4, 1)) },
		"PD.RegMR":          func(context.Context) (any, error) { return ofInterface(pd.RegMR(memory, allRights)) },
		"PD.RegMR of Alloc": func(context.Context) (any, error) { return ofInterface(pd.RegMR(e.buf, allRights)) },
		"PD.RegMRAt":        func(context.Context) (any, error) { return ofInterface(pd.RegMRAt(memory, 1<<20, allRights)) },
		"PD.Distribute":     func(context.Context) (any, error) { return ofInterface(pd.Distribute(memory, group)) },
		"PD.AllocMW":        func(context.Context) (any, error) { return ofInterface(pd.AllocMW()) },
		"PD.CreateAH": func(context.Context) (any, error) {
			return ofInterface(pd.CreateAH(verbs.AddressVector{Dst: here}))
		},
		"Device.CreateCQ": func(context.Context) (any, error) { return ofInterface(d.CreateCQ(1)) },
		"Device.AllocPD":  func(context.Context) (any, error) { return ofInterface(d.AllocPD()) },
		"Device.OpenCM":   func(context.Context) (any, error) { return ofInterface(d.OpenCM()) },
		"rdma.Open": func(ctx context.Context) (any, error) {
			return ofInterface(rdma.Open(ctx, "lo", rdma.WithDriver("server"), rdma.WithConfig(client.Config{RunDir: dir})))
		},
		"client.Open": func(ctx context.Context) (any, error) {
			return ofPointer(client.Open(ctx, "lo", client.Config{RunDir: dir}))
		},
		"rdma.Dial":    func(ctx context.Context) (any, error) { return ofPointer(rdma.Dial(ctx, d, peer)) },
		"rdma.Connect": func(ctx context.Context) (any, error) { return ofPointer(rdma.Connect(ctx, d, peer, e.qp)) },
		"rdma.Listen":  func(ctx context.Context) (any, error) { return ofPointer(rdma.Listen(ctx, d, ":0")) },
		"rdma.Resolve": func(ctx context.Context) (any, error) { return ofPointer(rdma.Resolve(ctx, d, peer)) },
		"rdma.Announce": func(ctx context.Context) (any, error) {
			return ofPointer(rdma.Announce(ctx, d, ":0", e.qp, 1))
		},
		"rdma.RegisterMemory": func(context.Context) (any, error) {
			return ofPointer(rdma.RegisterMemory(pd, memory, allRights))
		},
		"compute.Dial": func(ctx context.Context) (any, error) {
			return ofPointer(compute.Dial(ctx, d, peer, compute.ClientConfig{}))
		},
		"compute.Listen": func(ctx context.Context) (any, error) {
			return ofPointer(compute.Listen(ctx, d, ":0", compute.ServerConfig{Executor: executor}))
		},
	}
}

// construct calls a constructor. With an error, the object must be nil: an application that compares it
// with nil would use it otherwise.
func construct(t *testing.T, name string, f constructor) error {
	t.Helper()
	ctx := testkit.Context(t)
	v, err := f(ctx)
	if err != nil && v != nil {
		t.Errorf("%s: %T %v is not nil, with the error: %v", name, v, v, err)
	}
	if err == nil && v == nil {
		t.Errorf("%s: nil without an error", name)
	}
	if c, ok := v.(io.Closer); ok && err == nil {
		_ = c.Close() // during an upgrade the device ends first
	}
	return err
}

// Every method of the device and of a protection domain that returns an object is in constructors.
func TestConstructorsAreAll(t *testing.T) {
	_, dir := serve(t, device.Config{})
	d := open(t, dir)
	all := constructors(d, dir, newEnd(t, d, 64, verbs.QPInit{Type: verbs.RC}), "127.0.0.1:1")
	failure := reflect.TypeFor[error]()
	for name, typ := range map[string]reflect.Type{"Device.": reflect.TypeFor[*client.Device](), "PD.": reflect.TypeFor[*client.PD]()} {
		for i := range typ.NumMethod() {
			m := typ.Method(i)
			if m.Type.NumOut() != 2 || m.Type.Out(1) != failure || m.Type.Out(0).Kind() != reflect.Interface {
				continue
			}
			if all[name+m.Name] == nil {
				t.Errorf("%s%s is not tested", name, m.Name)
			}
		}
	}
}

// At a limit, constructors return nil and an error.
func TestConstructorsAtLimits(t *testing.T) {
	for name, change := range map[string]func(l *limits.Limits){
		// Dial makes a completion queue first.
		"completion queues": func(l *limits.Limits) { l.Process[limits.CQs] = 1 },
		"queue pairs":       func(l *limits.Limits) { l.Process[limits.QPs] = 1 },
		"work requests":     func(l *limits.Limits) { l.Process[limits.WRs] = 256 },
		"regions": func(l *limits.Limits) {
			l.Process[limits.MRs], l.Process[limits.MWs], l.Process[limits.AHs], l.Process[limits.SRQs], l.Process[limits.Connections], l.Process[limits.Listeners] = 1, 0, 0, 0, 0, 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := limits.Defaults()
			change(&l)
			l.User[limits.Processes] = 1
			_, dir := serve(t, device.Config{Limits: &l})
			d := open(t, dir)
			all := constructors(d, dir, newEnd(t, d, 64, verbs.QPInit{Type: verbs.RC}), "127.0.0.1:1")
			refused := map[string][]string{
				"completion queues": {"Device.CreateCQ", "rdma.Dial", "compute.Dial"},
				"queue pairs":       {"PD.CreateQP", "rdma.Dial", "compute.Dial"},
				"work requests":     {"PD.CreateQP", "PD.CreateSRQ", "PD.Distribute", "rdma.Dial", "compute.Dial"},
				"regions": {
					"PD.RegMR", "PD.RegMR of Alloc", "PD.RegMRAt", "PD.Distribute", "PD.AllocMW", "PD.CreateAH", "PD.CreateSRQ", "rdma.RegisterMemory",
					"rdma.Dial", "rdma.Connect", "rdma.Listen", "rdma.Resolve", "rdma.Announce", "compute.Dial", "compute.Listen",
				},
			}[name]
			for _, name := range append(refused, "rdma.Open", "client.Open") {
				if err := construct(t, name, all[name]); err == nil {
					t.Errorf("%s: no error at the limit", name)
				}
			}
			if name == "queue pairs" { // Dial has opened the communication manager
				if err := construct(t, "Device.OpenCM", all["Device.OpenCM"]); !errors.Is(err, verbs.ErrBusy) {
					t.Errorf("a second session: %v", err)
				}
			}
		})
	}
}

// When the agent has gone, all constructors return nil and an error.
func TestConstructorsWithoutAgent(t *testing.T) {
	s, dir := serve(t, device.Config{})
	d := open(t, dir)
	all := constructors(d, dir, newEnd(t, d, 64, verbs.QPInit{Type: verbs.RC}), "127.0.0.1:1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, f := range all {
		if err := construct(t, name, f); err == nil {
			t.Errorf("%s: no error without an agent", name)
		}
	}
}

// The agent is upgraded, which ends the device, while all constructors are called again and again. Each
// returns an object, or nil and an error; none panics.
func TestConstructorsDuringUpgrade(t *testing.T) {
	s, dir := serve(t, device.Config{})
	server, d := open(t, dir), open(t, dir)
	l, err := rdma.Listen(t.Context(), server, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all, called sync.WaitGroup
	all.Go(func() {
		for {
			if _, err := l.Accept(t.Context()); err != nil {
				return
			}
		}
	})
	for name, f := range constructors(d, dir, newEnd(t, d, 64, verbs.QPInit{Type: verbs.RC}), l.Addr().String()) {
		called.Add(1)
		all.Go(func() {
			first := true
			for end := false; !end; {
				err := construct(t, name, f)
				_, gone := d.Port()
				end = err != nil && errors.Is(gone, verbs.ErrGone)
				if first {
					called.Done()
				}
				first = false
			}
		})
	}
	called.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
}
