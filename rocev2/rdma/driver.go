// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Driver opens devices. A package that has one registers it in its init function.
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

func init() { Register(DefaultDriver, DriverFunc(openServer)) }

// ServerConfig is the configuration of the driver "server" (WithConfig).
type ServerConfig = client.Config

// openServer is the driver of the device that the agent serves.
func openServer(ctx context.Context, name string, config any) (verbs.Device, error) {
	c, ok := config.(ServerConfig)
	if !ok && config != nil {
		return nil, fmt.Errorf("the configuration is a %T; use rdma.ServerConfig or nil", config)
	}
	d, err := client.Open(ctx, name, c)
	if err != nil {
		return nil, err
	}
	return d, nil
}

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

// findDriver returns the driver of a name, or nil.
func findDriver(name string) Driver {
	drivers.RLock()
	defer drivers.RUnlock()
	return drivers.byName[name]
}

// Drivers returns the names of the registered drivers, sorted.
func Drivers() []string {
	drivers.RLock()
	defer drivers.RUnlock()
	return slices.Sorted(maps.Keys(drivers.byName))
}
