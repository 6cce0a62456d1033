// SPDX-License-Identifier: Apache-2.0

// Package loopback registers the driver "loopback" of package rdma: an engine in this process
// without interface, root and data plane. Its queue pairs reach each other at 127.0.0.1 and ::1,
// for examples and for tests of applications.
package loopback

import (
	"context"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func init() { rdma.Register("loopback", rdma.DriverFunc(open)) }

// open makes a device that is independent of all others. The name is ignored; config is a
// Options or nil.
func open(_ context.Context, _ string, config any) (verbs.Device, error) {
	o, ok := config.(Options)
	if !ok && config != nil {
		return nil, fmt.Errorf("the configuration is a %T; use loopback.Options or nil", config)
	}
	d, err := nic.OpenLoopback(o)
	if err != nil {
		return nil, err
	}
	return d, nil
}
