// SPDX-License-Identifier: Apache-2.0

package qp

import "reflect"

// Counters counts events of the queue pairs that share it. The engine shows them under
// the names of rxe's and mlx5's hw_counters.
type Counters struct {
	SentPackets, SentBytes uint64 // requests and READ responses, payload bytes
	RecvPackets, RecvBytes uint64
	SentAgain              uint64 // packets sent more than once
	Delivered              uint64 // data packets accepted for the first time
	Buffered               uint64 // data packets beyond a missing one that were kept, for the first time

	DuplicateRequest uint64 // rxe: duplicate_request
	OutOfSequence    uint64 // rxe: out_of_seq_request, mlx5: out_of_sequence
	ImpliedNak       uint64 // mlx5: implied_nak_seq_err
	SeqErr           uint64 // rxe: rcvd_seq_err, mlx5: packet_seq_err: NAK PSN received
	RNRReceived      uint64 // rxe: rcvd_rnr_err, mlx5: rnr_nak_retry_err
	RNRSent          uint64 // rxe: send_rnr_err
	RetryExceeded    uint64 // rxe: retry_exceeded_err
	RNRRetryExceeded uint64 // rxe: retry_rnr_exceeded_err
	Timeouts         uint64 // mlx5: local_ack_timeout_err
	TailProbes       uint64
	SACKSent         uint64
	SACKReceived     uint64

	RemoteAccess    uint64 // mlx5: resp_remote_access_errors: NAK 62 sent
	InvalidRequest  uint64 // mlx5: resp_remote_invalid_request: NAK 61 sent
	RemoteOperation uint64 // mlx5: resp_remote_operation_errors: NAK 63 sent
	NakAccess       uint64 // mlx5: req_remote_access_errors: received
	NakInvalid      uint64 // mlx5: req_remote_invalid_request
	NakOperation    uint64
	LocalError      uint64 // mlx5: resp_local_length_error and similar
	Flushed         uint64 // mlx5: req_cqe_flush_error

	Ignored     uint64 // packets not accepted in this state or by this service
	Malformed   uint64 // opcode out of order, wrong length or pad
	BadQKey     uint64 // UD
	NoBuffer    uint64 // UC, UD: no receive posted, message dropped
	StaleAnswer uint64 // responses without an outstanding request
}

// Taken is how many data packets were taken. It does not grow by a copy, nor by a packet that was
// dropped. A packet that was kept first counts twice.
func (c *Counters) Taken() uint64 { return c.Delivered + c.Buffered }

// Add adds all counters of o.
func (c *Counters) Add(o *Counters) {
	to, from := reflect.ValueOf(c).Elem(), reflect.ValueOf(o).Elem()
	for i := range to.NumField() {
		to.Field(i).SetUint(to.Field(i).Uint() + from.Field(i).Uint())
	}
}
