// SPDX-License-Identifier: Apache-2.0

package ourside

import (
	"context"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/testenv/rxejudge"
)

// eventNumbers are those of enum ibv_event_type.
var eventNumbers = map[nic.EventType]int{
	nic.EventCQError: 0, nic.EventQPFatal: 1, nic.EventQPRequest: 2, nic.EventQPAccess: 3, nic.EventQPEstablished: 4,
	nic.EventQPDrained: 5, nic.EventDeviceFatal: 8, nic.EventPortActive: 9, nic.EventPortDown: 10,
	nic.EventSRQLimit: rxejudge.EventSRQLimit, nic.EventQPLastWQE: 16, nic.EventGIDChange: 18,
}

// AsyncEvent returns the next event, or nil when wait has passed.
func (s *Side) AsyncEvent(ctx context.Context, wait time.Duration) (*rxejudge.AsyncEvent, error) {
	var e nic.Event
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case e = <-s.Dev.Events():
	default:
		select {
		case e = <-s.Dev.Events():
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	n, ok := eventNumbers[e.Type]
	if !ok {
		return nil, fmt.Errorf("%s: event %v", s.Name(), e.Type)
	}
	out := &rxejudge.AsyncEvent{Type: n}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.qps[e.QP]; q != nil {
		out.QP = q
	}
	if q := s.srqs[e.SRQ]; q != nil {
		out.SRQ = q
	}
	return out, nil
}
