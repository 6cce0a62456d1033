// SPDX-License-Identifier: Apache-2.0

package sides

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

// Device is a verbs.Device as an oracle.Side.
type Device struct {
	verbs.Device
	host   string
	addrs  []netip.Addr
	memory func(pd verbs.PD, size, offset int, rights verbs.Access) (verbs.DM, error)
}

var _ oracle.Side = (*Device)(nil)

// Name implements oracle.Side.
func (s *Device) Name() string { return s.host }

// Addr is the first address of a family.
func (s *Device) Addr(v6 bool) (netip.Addr, error) {
	for _, a := range s.addrs {
		if a.Is6() == v6 {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s has no address of the family (IPv6: %v)", s.host, v6)
}

// NewMemory implements oracle.Side.
func (s *Device) NewMemory(pd verbs.PD, size, offset int, rights verbs.Access) (verbs.DM, error) {
	return s.memory(pd, size, offset, rights)
}

// AsyncEvent returns the next event, or nil when wait has passed.
func (s *Device) AsyncEvent(ctx context.Context, wait time.Duration) (*verbs.Event, error) {
	if wait == 0 {
		select {
		case e := <-s.Events():
			return &e, nil
		default:
			return nil, nil
		}
	}
	select {
	case e := <-s.Events():
		return &e, nil
	case <-time.After(wait):
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
