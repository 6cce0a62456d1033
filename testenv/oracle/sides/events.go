// SPDX-License-Identifier: Apache-2.0

package sides

import (
	"context"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

// eventNumbers are those of enum ibv_event_type.
var eventNumbers = map[verbs.EventType]int{
	verbs.EventCQError: 0, verbs.EventQPFatal: 1, verbs.EventQPRequest: 2, verbs.EventQPAccess: 3, verbs.EventQPEstablished: 4,
	verbs.EventQPDrained: 5, verbs.EventDeviceFatal: 8, verbs.EventPortActive: 9, verbs.EventPortDown: 10,
	verbs.EventSRQLimit: oracle.EventSRQLimit, verbs.EventQPLastWQE: 16, verbs.EventGIDChange: 18,
}

// AsyncEvent returns the next event, or nil when wait has passed.
func (s *Device) AsyncEvent(ctx context.Context, wait time.Duration) (*oracle.AsyncEvent, error) {
	var e verbs.Event
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case e = <-s.Verbs.Events():
	default:
		select {
		case e = <-s.Verbs.Events():
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
	out := &oracle.AsyncEvent{Type: n}
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
