// SPDX-License-Identifier: Apache-2.0

package mad

import "fmt"

// Reason is the reason of a REJ (IBTA 12.6.7.2, table 109).
type Reason uint16

// The reasons that have a meaning on RoCEv2.
const (
	ReasonNoQP               Reason = 1
	ReasonNoResources        Reason = 3
	ReasonTimeout            Reason = 4
	ReasonUnsupported        Reason = 5
	ReasonInvalidCommID      Reason = 6
	ReasonInvalidInstance    Reason = 7
	ReasonInvalidServiceID   Reason = 8
	ReasonInvalidService     Reason = 9
	ReasonStaleConnection    Reason = 10
	ReasonInvalidGID         Reason = 12
	ReasonInvalidLID         Reason = 13
	ReasonRedirect           Reason = 25
	ReasonInvalidMTU         Reason = 26
	ReasonResponderResources Reason = 27
	ReasonConsumer           Reason = 28
	ReasonRNRRetry           Reason = 29
	ReasonDuplicateCommID    Reason = 30
	ReasonClassVersion       Reason = 31
	ReasonVendorOption       Reason = 35
)

var reasonText = map[Reason]string{
	ReasonNoQP:               "no queue pair available",
	ReasonNoResources:        "no resources available",
	ReasonTimeout:            "timeout",
	ReasonUnsupported:        "unsupported request",
	ReasonInvalidCommID:      "unknown communication ID",
	ReasonInvalidInstance:    "invalid communication instance",
	ReasonInvalidServiceID:   "nothing listens at this service ID",
	ReasonInvalidService:     "transport service not supported",
	ReasonStaleConnection:    "stale connection: its queue pair is in another connection",
	ReasonInvalidGID:         "GID not accepted",
	ReasonInvalidLID:         "LID not accepted",
	ReasonRedirect:           "redirected to another port",
	ReasonInvalidMTU:         "path MTU not accepted",
	ReasonResponderResources: "too few responder resources",
	ReasonConsumer:           "refused by the application",
	ReasonRNRRetry:           "RNR retry count not accepted",
	ReasonDuplicateCommID:    "communication ID in use",
	ReasonClassVersion:       "class version not supported",
	ReasonVendorOption:       "vendor option not supported",
}

// String returns the meaning, as "timeout".
func (r Reason) String() string {
	if s, ok := reasonText[r]; ok {
		return s
	}
	return fmt.Sprintf("reason %d", uint16(r))
}
