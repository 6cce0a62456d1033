// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
)

// The tables by which ingress finds the messages of the engine's communication manager
// (bpf/lib/cm.h). They count while the lease steers queue pair 1.

// SteerService makes ingress redirect requests for a service ID to the AF_XDP sockets, or pass
// them on again.
func (s *EngineLease) SteerService(id uint64, on bool) error {
	return s.put(s.att.Maps.CmServices, id, uint32(0), on)
}

// SteerRequest does so for copies of a request.
func (s *EngineLease) SteerRequest(r bpf.CmRequest, on bool) error {
	return s.put(s.att.Maps.CmRequests, r, uint32(0), on)
}

// SteerID does so for messages that carry a communication ID of this host.
func (s *EngineLease) SteerID(id uint32, c bpf.CmId, on bool) error {
	return s.put(s.att.Maps.CmIds, id, c, on)
}

// put writes or removes an entry. After Close, which has removed all, nothing is written.
func (s *EngineLease) put(m *ebpf.Map, key, value any, on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed && !on:
		return nil
	case s.closed:
		return fmt.Errorf("%s: steer connection messages: %w", s.att.State.Interface, errLeaseClosed)
	case m == nil:
		return s.noCM()
	}
	var err error
	if on {
		err = m.Put(key, value)
	} else if err = m.Delete(key); errors.Is(err, ebpf.ErrKeyNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("%s: steer connection messages: %w", s.att.State.Interface, err)
	}
	return nil
}

// managementQPN is CM_QPN of bpf/lib/cm.h.
const managementQPN = 1

func (s *EngineLease) noCM() error {
	i := s.att.State.Interface
	return fmt.Errorf("%s: attached by a version without communication manager: run `softroce-xdp upgrade %s`", i, i)
}

// clearCM removes the entries of an engine's communication manager.
func clearCM(a *Attachment) error {
	return errors.Join(clearMap[uint64](a.Maps.CmServices), clearMap[bpf.CmRequest](a.Maps.CmRequests), clearMap[uint32](a.Maps.CmIds))
}

func clearMap[K any](m *ebpf.Map) error {
	if m == nil {
		return nil
	}
	var keys []K
	var key K
	value := make([]byte, m.ValueSize())
	it := m.Iterate()
	for it.Next(&key, &value) {
		keys = append(keys, key)
	}
	errs := []error{it.Err()}
	for _, k := range keys {
		if err := m.Delete(k); !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
