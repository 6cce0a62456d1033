// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// device is a device that only its driver knows.
type device struct {
	verbs.Device
	name   string
	config any
}

var errDriver = errors.New("no such interface")

var registered atomic.Int32

// unique returns a name for a driver that no other test has, and no other run of the same one.
func unique(name string) string { return fmt.Sprint(name, registered.Add(1)) }

func TestOpen(t *testing.T) {
	name := unique("test")
	Register(name, DriverFunc(func(_ context.Context, name string, config any) (verbs.Device, error) {
		if name == "" {
			return nil, errDriver
		}
		return device{name: name, config: config}, nil
	}))
	if !slices.Contains(Drivers(), name) {
		t.Error(Drivers())
	}
	if d, err := Open(t.Context(), "eth0", WithDriver(name), WithConfig(7)); err != nil || d != (device{name: "eth0", config: 7}) {
		t.Errorf("%v, %v", d, err)
	}
	if d, err := Open(t.Context(), "", WithDriver(name)); d != nil || !errors.Is(err, errDriver) {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := Open(t.Context(), "eth0", WithDriver("tset")); err == nil || !strings.Contains(err.Error(), `no driver "tset"`) || !strings.Contains(err.Error(), "test") {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if d, err := Open(ended, "eth0", WithDriver(name)); d != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", d, err)
	}
}

func TestRegisterRefuses(t *testing.T) {
	none := DriverFunc(func(context.Context, string, any) (verbs.Device, error) { return nil, errDriver })
	name := unique("once")
	Register(name, none)
	for _, d := range []Driver{none, nil} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v was registered", d)
				}
			}()
			Register(name, d)
		}()
	}
}
