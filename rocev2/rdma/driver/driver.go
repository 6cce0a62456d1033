// SPDX-License-Identifier: Apache-2.0

// Package driver has the drivers of package rdma by their names. A package that opens devices
// registers its driver here, in its init function. Applications use package rdma, which has the same
// names.
package driver

import (
	"context"
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

// Func is a function as a Driver.
type Func func(ctx context.Context, name string, config any) (verbs.Device, error)

// Open implements Driver.
func (f Func) Open(ctx context.Context, name string, config any) (verbs.Device, error) {
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

// Find returns the driver of a name, or nil.
func Find(name string) Driver {
	drivers.RLock()
	defer drivers.RUnlock()
	return drivers.byName[name]
}

// Names returns the names of the registered drivers, sorted.
func Names() []string {
	drivers.RLock()
	defer drivers.RUnlock()
	return slices.Sorted(maps.Keys(drivers.byName))
}
