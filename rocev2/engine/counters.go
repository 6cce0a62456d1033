// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The counters by name. Where rxe or mlx5 count the same the name is theirs (hw_counters), rxe's first.

// Packets returns the counters of all packets.
func (c *Counters) Packets() []verbs.Counter {
	return []verbs.Counter{
		{Name: "rcvd_pkts", Value: c.rxPackets, Text: "packets received for a queue pair"},
		{Name: "sent_pkts", Value: c.txPackets, Text: "packets sent, acknowledgements too"},
		{Name: "tx_stamped", Value: c.txStamped, Text: "packets sent with a stamp"},
	}
}

// Drops returns the counters of packets that were dropped before they had a queue pair, and of packets of
// any queue pair that could not be sent as they should be.
func (c *Counters) Drops() []verbs.Counter {
	return []verbs.Counter{
		{Name: "rx_icrc_encapsulated", Value: c.rxBadICRC, Text: "packets with a wrong ICRC, dropped"},
		{Name: "rx_malformed", Value: c.rxMalformed, Text: "frames that are no whole RoCEv2 packet, dropped"},
		{Name: "rx_too_long", Value: c.rxTooLong, Text: "frames longer than the MTU, dropped"},
		{Name: "rx_unknown_qpn", Value: c.rxUnknownQPN, Text: "packets to a queue pair that does not exist"},
		{Name: "rx_bad_pkey", Value: c.rxBadPKey, Text: "packets of another partition"},
		{Name: "rx_wrong_peer", Value: c.rxWrongPeer, Text: "packets to a connected queue pair from another address than its peer's"},
		{Name: "rx_other_address", Value: c.rxOtherAddress, Text: "packets to a UD queue pair, but to no address of the interface"},
		{Name: "rx_not_allowed", Value: c.rxNotAllowed, Text: "packets of hosts that --nic-allow does not have, dropped"},
		{Name: "tx_no_path", Value: c.txNoPath, Text: "packets dropped: no route or neighbour"},
		{Name: "tx_no_room", Value: c.txNoRoom, Text: "packets dropped: longer than the MTU, or than the frame"},
		{Name: "tx_stamp_too_big", Value: c.txTooBig, Text: "packets that exceed the MTU with the stamp, left unstamped"},
	}
}

// Crypt returns the counters of encrypted packets.
func (c *Counters) Crypt() []verbs.Counter { return c.crypt.list() }

// MADs returns the counters of the messages of the communication manager.
func (c *Counters) MADs() []verbs.Counter {
	return []verbs.Counter{
		{Name: "rx_cm_messages", Value: c.rxMADs, Text: "messages of communication managers received at queue pair 1"},
		{Name: "tx_cm_messages", Value: c.txMADs, Text: "messages of the communication manager sent from queue pair 1"},
		{Name: "rx_cm_malformed", Value: c.rxBadMAD, Text: "packets to queue pair 1 that are no such message: another opcode, Q_Key or length"},
		{Name: "tx_cm_dropped", Value: c.madsDropped, Text: "messages of the communication manager dropped because too many waited"},
	}
}

// SyncErrors returns how many batches of Reports have failed.
func (c *Counters) SyncErrors() uint64 { return c.syncErrors }

// Unproven returns the counters of packets without the token of a peer that stamps.
func (c *Counters) Unproven() []verbs.Counter {
	return []verbs.Counter{
		{Name: "unproven_data", Value: c.unproven[unprovenData], Text: "requests and READ responses without the token of a peer that stamps, dropped"},
		{Name: "unproven_ack", Value: c.unproven[unprovenAck], Text: "ACKs and SACKs without the token of a peer that stamps, dropped"},
		{Name: "unproven_nak", Value: c.unproven[unprovenNak], Text: "NAKs without the token of a peer that stamps, dropped"},
		{Name: "unproven_cnp", Value: c.unproven[unprovenCNP], Text: "CNPs without the token of a peer that stamps, dropped"},
		{Name: "unproven_oack", Value: c.unproven[unprovenOAck], Text: "OACKs without the token of a peer that stamps, dropped"},
		{Name: "unproven_onotify", Value: c.unproven[unprovenONotify], Text: "notifications without the token of a peer that stamps, dropped"},
		{Name: "unproven_mad", Value: c.unproven[unprovenMAD], Text: "packets to queue pair 1 without the token of a peer that stamps, dropped"},
		{Name: "stamp_questions", Value: c.questions, Text: "questions to peers whether they stamp, after packets without their token"},
		{Name: "stamp_silent", Value: c.silent, Text: "times that a peer answered no question: only exact PSNs count since then"},
	}
}

// OfQueuePairs returns the counters of queue pairs.
func OfQueuePairs(q *qp.Counters) []verbs.Counter {
	return []verbs.Counter{
		{Name: "rx_read_bytes", Value: q.RecvBytes, Text: "payload received by responders, bytes"},
		{Name: "tx_data_pkts", Value: q.SentPackets, Text: "requests and READ responses sent"},
		{Name: "tx_data_bytes", Value: q.SentBytes, Text: "their payload, bytes"},
		{Name: "tx_retransmits", Value: q.SentAgain, Text: "packets sent more than once"},
		{Name: "rx_delivered", Value: q.Delivered, Text: "requests accepted for the first time"},
		{Name: "duplicate_request", Value: q.DuplicateRequest, Text: "requests received again"},
		{Name: "out_of_seq_request", Value: q.OutOfSequence, Text: "requests beyond a missing one"},
		{Name: "implied_nak_seq_err", Value: q.ImpliedNak, Text: "ACKs beyond an unanswered READ or ATOMIC"},
		{Name: "rcvd_seq_err", Value: q.SeqErr, Text: "NAKs received: PSN sequence error"},
		{Name: "rcvd_rnr_err", Value: q.RNRReceived, Text: "NAKs received: receiver not ready"},
		{Name: "send_rnr_err", Value: q.RNRSent, Text: "NAKs sent: receiver not ready"},
		{Name: "retry_exceeded_err", Value: q.RetryExceeded, Text: "queue pairs given up: peer does not answer"},
		{Name: "retry_rnr_exceeded_err", Value: q.RNRRetryExceeded, Text: "queue pairs given up: receiver never ready"},
		{Name: "local_ack_timeout_err", Value: q.Timeouts, Text: "timeouts of acknowledgements"},
		{Name: "tail_probes", Value: q.TailProbes, Text: "tail loss probes sent"},
		{Name: "sack_sent", Value: q.SACKSent, Text: "selective acknowledgements sent"},
		{Name: "sack_rcvd", Value: q.SACKReceived, Text: "selective acknowledgements received"},
		{Name: "resp_remote_access_errors", Value: q.RemoteAccess, Text: "NAKs sent: remote access error"},
		{Name: "resp_remote_invalid_request", Value: q.InvalidRequest, Text: "NAKs sent: invalid request"},
		{Name: "resp_remote_operation_errors", Value: q.RemoteOperation, Text: "NAKs sent: remote operational error"},
		{Name: "req_remote_access_errors", Value: q.NakAccess, Text: "NAKs received: remote access error"},
		{Name: "req_remote_invalid_request", Value: q.NakInvalid, Text: "NAKs received: invalid request"},
		{Name: "req_remote_operation_errors", Value: q.NakOperation, Text: "NAKs received: remote operational error"},
		{Name: "resp_local_errors", Value: q.LocalError, Text: "messages that did not fit, or whose buffer was wrong"},
		{Name: "req_cqe_flush_error", Value: q.Flushed, Text: "work requests flushed"},
		{Name: "rx_ignored", Value: q.Ignored, Text: "packets that the state or service of the queue pair does not take"},
		{Name: "rx_malformed_request", Value: q.Malformed, Text: "opcode out of place, wrong length or pad"},
		{Name: "rx_stale_answer", Value: q.StaleAnswer, Text: "answers to no outstanding request"},
		{Name: "rx_bad_qkey", Value: q.BadQKey, Text: "datagrams with a wrong Q_Key"},
		{Name: "rx_no_buffer", Value: q.NoBuffer, Text: "UC and UD messages that found no receive"},
	}
}

// OfOutOfOrder returns the counters of queue pairs in out-of-order mode.
func OfOutOfOrder(c *ooo.Counters) []verbs.Counter {
	return []verbs.Counter{
		{Name: "ooo_sent_pkts", Value: c.SentPackets, Text: "requests sent in out-of-order mode"},
		{Name: "ooo_resent", Value: c.Resent, Text: "of these, sent again"},
		{Name: "ooo_probes", Value: c.Probes, Text: "of these, on suspicion"},
		{Name: "ooo_spurious", Value: c.Spurious, Text: "packets sent again whose original was answered"},
		{Name: "ooo_paths_replaced", Value: c.PathsReplaced, Text: "UDP source ports given up for another"},
		{Name: "ooo_failed", Value: c.Failed, Text: "messages in out-of-order mode that ended with an error"},
		{Name: "ooo_placed", Value: c.Placed, Text: "packets of WRITEs written to memory, in any order"},
		{Name: "ooo_duplicates", Value: c.Duplicates, Text: "requests in out-of-order mode received again"},
		{Name: "ooo_merged", Value: c.Merged, Text: "OACKs left out, because a later one contains them"},
		{Name: "ooo_outside_window", Value: c.Stale + c.Beyond, Text: "packets too old or too new for the window, dropped"},
		{Name: "ooo_notified", Value: c.Notified, Text: "notifications that completed a receive"},
		{Name: "ooo_notify_repeated", Value: c.NotifyRepeat, Text: "notifications received again"},
		{Name: "ooo_not_ready", Value: c.NotReady, Text: "notifications refused by the peer because it had no receive"},
		{Name: "ooo_refused", Value: c.Refused, Text: "ONAKs sent"},
	}
}

// Counters returns the counters of pre-credit, also if it is off.
func (pre *PreCreditCounters) Counters() []verbs.Counter {
	return []verbs.Counter{
		{Name: "precredit_granted", Value: pre.given, Text: "pre-credit given to peers, bytes"},
		{Name: "precredit_delivered", Value: pre.drained, Text: "of it, bytes of payload that arrived"},
		{Name: "precredit_wasted", Value: pre.wasted, Text: "of it, bytes that came back unused or were lost"},
		{Name: "precredit_reclaimed", Value: pre.reclaimed, Text: "of these, bytes taken back from silent peers"},
		{Name: "precredit_outstanding", Value: pre.outstanding, Text: "of it, bytes unused at peers or in flight now"},
		{Name: "precredit_used", Value: pre.Used, Text: "bytes of payload sent on pre-credit of peers"},
		{Name: "precredit_returned", Value: pre.Returned, Text: "bytes of pre-credit of peers given up unused"},
		{Name: "precredit_blocked", Value: pre.Waits, Text: "times that a large flow without pre-credit was blocked until the first ACK"},
		{Name: "precredit_ramps", Value: pre.Ramps, Text: "times that the window of a start began at what was in flight"},
		{Name: "precredit_grants_sent", Value: pre.Grants, Text: "CREDIT_GRANT messages sent"},
		{Name: "precredit_returns_sent", Value: pre.Returns, Text: "CREDIT_RETURN messages sent"},
		{Name: "precredit_ignored", Value: pre.Ignored, Text: "such messages from hosts with which there is no pre-credit"},
	}
}
