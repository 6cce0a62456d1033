// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// DefaultDriver is the driver of Open without WithDriver: the device server of the agent, which
// `softroce-xdp attach --nic` starts.
const DefaultDriver = "server"

// Driver opens devices.
type Driver interface {
	// Open opens the device of this name. config is a type of the driver's package, or nil
	// for the defaults. Open gives up when ctx ends before there is a device; an open device
	// does not depend on ctx.
	Open(ctx context.Context, name string, config any) (verbs.Device, error)
}

// DriverFunc is a function as a Driver.
type DriverFunc func(ctx context.Context, name string, config any) (verbs.Device, error)

// Open implements Driver.
func (f DriverFunc) Open(ctx context.Context, name string, config any) (verbs.Device, error) {
	return f(ctx, name, config)
}

var drivers = struct {
	sync.RWMutex
	byName map[string]Driver
}{byName: map[string]Driver{}}

// Register makes a driver available by a name. It panics if the name is taken or d is nil.
func Register(name string, d Driver) {
	drivers.Lock()
	defer drivers.Unlock()
	if d == nil {
		panic("rdma: driver " + name + " is nil")
	}
	if _, taken := drivers.byName[name]; taken {
		panic("rdma: driver " + name + " is registered twice")
	}
	drivers.byName[name] = d
}

// Drivers returns the names of the registered drivers, sorted.
func Drivers() []string {
	drivers.RLock()
	defer drivers.RUnlock()
	return slices.Sorted(maps.Keys(drivers.byName))
}

// OpenOption changes what Open opens.
type OpenOption func(*openOptions)

type openOptions struct {
	driver string
	config any
}

// WithDriver chooses the driver. Its package must be imported.
func WithDriver(name string) OpenOption { return func(o *openOptions) { o.driver = name } }

// WithConfig passes a configuration to the driver: a type of the driver's package.
func WithConfig(config any) OpenOption { return func(o *openOptions) { o.config = config } }

// Open opens the device of a network interface, in the network namespace of the calling thread.
// ctx bounds the opening only; the device stays open until its Close.
//
// Without options, the device is the one that the agent serves (DefaultDriver). The error says
// what to do, and wraps ErrNotAttached, ErrNoNIC or fs.ErrPermission if the server cannot be
// reached for one of these reasons.
func Open(ctx context.Context, name string, options ...OpenOption) (verbs.Device, error) {
	o := openOptions{driver: DefaultDriver}
	for _, set := range options {
		set(&o)
	}
	drivers.RLock()
	d := drivers.byName[o.driver]
	drivers.RUnlock()
	if d == nil {
		return nil, fmt.Errorf("rdma: open %s: this program has no driver %q, but %q: import the package of the driver, or choose one with WithDriver",
			name, o.driver, Drivers())
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("rdma: open %s by driver %s: %w", name, o.driver, err)
	}
	dev, err := d.Open(ctx, name, o.config)
	if err != nil && o.driver == DefaultDriver {
		err = serverError(runDir, name, err)
	}
	return dev, err
}
