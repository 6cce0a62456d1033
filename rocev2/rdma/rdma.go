// SPDX-License-Identifier: Apache-2.0

// Package rdma opens RDMA devices by the name of their driver. The device, what it makes and
// all types are those of package verbs.
//
// A driver registers itself when its package is imported, as with database/sql:
//
//	import (
//		"github.com/softroce/softroce-xdp/rocev2/rdma"
//		"github.com/softroce/softroce-xdp/rocev2/verbs"
//
//		_ "github.com/softroce/softroce-xdp/loader/engine" // driver "softroce"
//	)
//
//	dev, err := rdma.Open(ctx, "softroce", "eth0", nil)
//
// These drivers exist:
//
//	softroce   loader/engine         the engine in this process, on an attached interface
//	loopback   rocev2/nic/loopback   an engine without interface and without root, for tests
package rdma

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

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

// Open opens the device of a driver. For an engine in this process the name is that of the
// interface, in the network namespace of the calling thread. config is a type of the driver's
// package, or nil for the defaults.
func Open(ctx context.Context, driver, name string, config any) (verbs.Device, error) {
	drivers.RLock()
	d := drivers.byName[driver]
	drivers.RUnlock()
	if d == nil {
		return nil, fmt.Errorf("rdma: no driver %q among %q: import the package of the driver", driver, Drivers())
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("rdma: open %s %s: %w", driver, name, err)
	}
	return d.Open(ctx, name, config)
}
