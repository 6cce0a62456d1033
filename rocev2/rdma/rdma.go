// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// DefaultDriver is the driver of Open without WithDriver: the device server of the agent, which
// `softroce-xdp attach --nic` starts.
const DefaultDriver = "server"

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
// what to do, and wraps ErrNotAttached, ErrNoNIC, ErrNotServing or fs.ErrPermission if the server cannot be
// reached for one of these reasons.
func Open(ctx context.Context, name string, options ...OpenOption) (verbs.Device, error) {
	o := openOptions{driver: DefaultDriver}
	for _, set := range options {
		set(&o)
	}
	d := findDriver(o.driver)
	if d == nil {
		return nil, fmt.Errorf("rdma: open %s: this program has no driver %q, but %q: import the package of the driver, or choose one with WithDriver",
			name, o.driver, Drivers())
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("rdma: open %s by driver %s: %w", name, o.driver, err)
	}
	dev, err := d.Open(ctx, name, o.config)
	if err != nil && o.driver == DefaultDriver {
		dir := runDir
		if c, ok := o.config.(client.Config); ok && c.RunDir != "" {
			dir = c.RunDir
		}
		err = serverError(dir, name, err)
	}
	return dev, err
}
