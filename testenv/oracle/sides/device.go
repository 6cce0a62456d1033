// SPDX-License-Identifier: Apache-2.0

package sides

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

// Device makes an oracle.Side of a verbs.Device.
type Device struct {
	Verbs verbs.Device
	Host  string // name of the side
	Addrs []netip.Addr

	// Register makes and registers memory.
	Register func(pd verbs.PD, size, offset int, rights verbs.Access) (oracle.MR, error)

	mu   sync.Mutex
	qps  map[verbs.QP]*queuePair
	srqs map[verbs.SRQ]*sharedQueue
}

var _ oracle.Side = (*Device)(nil)

// NewDevice returns the side of a device. The caller closes the device.
func NewDevice(d verbs.Device, host string, addrs []netip.Addr) *Device {
	return &Device{Verbs: d, Host: host, Addrs: addrs, qps: map[verbs.QP]*queuePair{}, srqs: map[verbs.SRQ]*sharedQueue{}}
}

// Name implements oracle.Side.
func (s *Device) Name() string { return s.Host }

// Addr is the first address of a family.
func (s *Device) Addr(v6 bool) (netip.Addr, error) {
	for _, a := range s.Addrs {
		if a.Is6() == v6 {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s has no address of the family (IPv6: %v)", s.Name(), v6)
}

// Domain is a protection domain.
type Domain struct {
	s  *Device
	PD verbs.PD
}

// NewPD allocates a protection domain.
func (s *Device) NewPD(context.Context) (oracle.PD, error) {
	pd, err := s.Verbs.AllocPD()
	return Domain{s, pd}, err
}

// Destroy implements oracle.PD.
func (d Domain) Destroy(context.Context) error { return d.PD.Free() }

// RegMR implements oracle.PD.
func (d Domain) RegMR(_ context.Context, size, offset int, rights oracle.Access) (oracle.MR, error) {
	return d.s.Register(d.PD, size, offset, Rights(rights))
}

type window struct{ w verbs.MW }

// NewMW implements oracle.PD.
func (d Domain) NewMW(context.Context) (oracle.MW, error) {
	w, err := d.PD.AllocMW()
	return window{w}, err
}

func (w window) RKey() uint32                  { return w.w.RKey() }
func (w window) Destroy(context.Context) error { return w.w.Free() }

type addressHandle struct{ a verbs.AH }

// NewAH implements oracle.PD.
func (d Domain) NewAH(_ context.Context, to netip.Addr) (oracle.AH, error) {
	src, err := d.s.Addr(to.Is6())
	if err != nil {
		return nil, err
	}
	a, err := d.PD.CreateAH(verbs.AddressVector{Src: src, Dst: to})
	return addressHandle{a}, err
}

func (a addressHandle) Destroy(context.Context) error { return a.a.Destroy() }

// QueuePair is the queue pair of the device behind one of the oracle.
func QueuePair(q oracle.QP) verbs.QP { return q.(*queuePair).q }
