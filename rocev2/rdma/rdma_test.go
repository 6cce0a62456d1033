// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"errors"
	"slices"
	"strings"
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

func TestOpen(t *testing.T) {
	defer unregister("test")
	Register("test", DriverFunc(func(_ context.Context, name string, config any) (verbs.Device, error) {
		if name == "" {
			return nil, errDriver
		}
		return device{name: name, config: config}, nil
	}))
	if !slices.Contains(Drivers(), "test") {
		t.Error(Drivers())
	}
	if d, err := Open(t.Context(), "eth0", WithDriver("test"), WithConfig(7)); err != nil || d != (device{name: "eth0", config: 7}) {
		t.Errorf("%v, %v", d, err)
	}
	if d, err := Open(t.Context(), "", WithDriver("test")); d != nil || !errors.Is(err, errDriver) {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := Open(t.Context(), "eth0", WithDriver("tset")); err == nil || !strings.Contains(err.Error(), `no driver "tset"`) || !strings.Contains(err.Error(), "test") {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if d, err := Open(ended, "eth0", WithDriver("test")); d != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", d, err)
	}
}

func unregister(name string) { delete(drivers.byName, name) }

func TestRegisterRefuses(t *testing.T) {
	none := DriverFunc(func(context.Context, string, any) (verbs.Device, error) { return nil, errDriver })
	defer unregister("once")
	Register("once", none)
	for _, d := range []Driver{none, nil} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v was registered", d)
				}
			}()
			Register("once", d)
		}()
	}
}
