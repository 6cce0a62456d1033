// SPDX-License-Identifier: Apache-2.0

package verbs

// Status is the outcome of a work request (IBTA 11.6.2).
type Status uint8

// The statuses, under the names of verbs (IBV_WC_*).
const (
	StatusSuccess Status = iota
	StatusLocalLength
	StatusLocalQPOperation
	StatusLocalProtection
	StatusWRFlushed
	StatusMWBindError
	StatusBadResponse
	StatusLocalAccess
	StatusRemoteInvalidRequest
	StatusRemoteAccess
	StatusRemoteOperation
	StatusRetryExceeded
	StatusRNRRetryExceeded
	StatusRemoteAborted
	StatusFatal
)

var statusNames = [...]string{
	"success", "local length error", "local QP operation error", "local protection error",
	"work request flushed", "memory window bind error", "bad response", "local access error",
	"remote invalid request", "remote access error", "remote operation error",
	"transport retry counter exceeded", "RNR retry counter exceeded", "remote aborted", "fatal error",
}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown status"
}

// Error implements error, so that a status can be returned and wrapped. The errors of package rdma are found
// with it: errors.Is(err, verbs.StatusRetryExceeded).
func (s Status) Error() string { return s.String() }

// Completion is an entry of a completion queue.
type Completion struct {
	WRID      uint64
	QPN       uint32 // the local queue pair
	Status    Status
	Op        Op   // operation; only valid with StatusSuccess
	Solicited bool // a receive with Solicited set by the sender, or any error
	HasImm    bool
	HasInv    bool   // InvKey was invalidated by SEND with invalidate
	HasGRH    bool   // UD: the receive begins with the network header, of GRHLen bytes
	IPv4      bool   // of the network header, which is IPv6 otherwise (annex A17.4.5.1)
	Bytes     uint32 // received, or read
	Imm       uint32
	InvKey    uint32
	SrcQP     uint32 // UD
}
