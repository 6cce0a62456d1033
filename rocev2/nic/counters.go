// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"github.com/softroce/softroce-xdp/rocev2/cm/service"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Counters returns what the device has counted, always the same counters in the same
// order. Where rxe or mlx5 count the same the name is theirs (hw_counters), rxe's first.
func (d *Device) Counters() []verbs.Counter {
	var c engineCounters
	var q qp.Counters
	var qps int
	var pre creditTotals
	var conn service.Counters
	if svc := d.cm.svc.Load(); svc != nil {
		conn = svc.Counters()
	}
	read := func() error {
		c, q, qps = d.eng.count, d.eng.qpCount, d.eng.qps.Len()
		if c, ok := d.eng.hooks.(*credits); ok {
			pre = c.totals()
		}
		return nil
	}
	if d.do(read) != nil {
		<-d.done // nothing is counted any more
		_ = read()
	}
	list := []counter{
		{"rcvd_pkts", c.rxPackets, "packets received for a queue pair"},
		{"sent_pkts", c.txPackets, "packets sent, acknowledgements too"},
		{"rx_read_bytes", q.RecvBytes, "payload received by responders, bytes"},
		{"tx_data_pkts", q.SentPackets, "requests and READ responses sent"},
		{"tx_data_bytes", q.SentBytes, "their payload, bytes"},
		{"tx_retransmits", q.SentAgain, "packets sent more than once"},
		{"rx_delivered", q.Delivered, "requests accepted for the first time"},
		{"tx_stamped", c.txStamped, "packets sent with a stamp"},
		{"duplicate_request", q.DuplicateRequest, "requests received again"},
		{"out_of_seq_request", q.OutOfSequence, "requests beyond a missing one"},
		{"implied_nak_seq_err", q.ImpliedNak, "ACKs beyond an unanswered READ or ATOMIC"},
		{"rcvd_seq_err", q.SeqErr, "NAKs received: PSN sequence error"},
		{"rcvd_rnr_err", q.RNRReceived, "NAKs received: receiver not ready"},
		{"send_rnr_err", q.RNRSent, "NAKs sent: receiver not ready"},
		{"retry_exceeded_err", q.RetryExceeded, "queue pairs given up: peer does not answer"},
		{"retry_rnr_exceeded_err", q.RNRRetryExceeded, "queue pairs given up: receiver never ready"},
		{"local_ack_timeout_err", q.Timeouts, "timeouts of acknowledgements"},
		{"tail_probes", q.TailProbes, "tail loss probes sent"},
		{"sack_sent", q.SACKSent, "selective acknowledgements sent"},
		{"sack_rcvd", q.SACKReceived, "selective acknowledgements received"},
		{"resp_remote_access_errors", q.RemoteAccess, "NAKs sent: remote access error"},
		{"resp_remote_invalid_request", q.InvalidRequest, "NAKs sent: invalid request"},
		{"resp_remote_operation_errors", q.RemoteOperation, "NAKs sent: remote operational error"},
		{"req_remote_access_errors", q.NakAccess, "NAKs received: remote access error"},
		{"req_remote_invalid_request", q.NakInvalid, "NAKs received: invalid request"},
		{"req_remote_operation_errors", q.NakOperation, "NAKs received: remote operational error"},
		{"resp_local_errors", q.LocalError, "messages that did not fit, or whose buffer was wrong"},
		{"req_cqe_flush_error", q.Flushed, "work requests flushed"},
		{"rx_ignored", q.Ignored, "packets that the state or service of the queue pair does not take"},
		{"rx_malformed_request", q.Malformed, "opcode out of place, wrong length or pad"},
		{"rx_stale_answer", q.StaleAnswer, "answers to no outstanding request"},
		{"rx_bad_qkey", q.BadQKey, "datagrams with a wrong Q_Key"},
		{"rx_no_buffer", q.NoBuffer, "UC and UD messages that found no receive"},
		{"rx_icrc_encapsulated", c.rxBadICRC, "packets with a wrong ICRC, dropped"},
		{"rx_malformed", c.rxMalformed, "frames that are no whole RoCEv2 packet, dropped"},
		{"rx_too_long", c.rxTooLong, "frames longer than the MTU, dropped"},
		{"rx_unknown_qpn", c.rxUnknownQPN, "packets to a queue pair that does not exist"},
		{"rx_bad_pkey", c.rxBadPKey, "packets of another partition"},
		{"rx_wrong_peer", c.rxWrongPeer, "packets to a connected queue pair from another address than its peer's"},
		{"tx_no_path", c.txNoPath, "packets dropped: no route or neighbour"},
		{"tx_no_room", c.txNoRoom, "packets dropped: longer than the MTU, or than the frame"},
		{"tx_stamp_too_big", c.txTooBig, "packets that exceed the MTU with the stamp, left unstamped"},
		{"rx_cm_messages", c.rxMADs, "messages of connection managers received at queue pair 1"},
		{"tx_cm_messages", c.txMADs, "messages of the connection manager sent from queue pair 1"},
		{"rx_cm_malformed", c.rxBadMAD, "packets to queue pair 1 that are no such message: another opcode, Q_Key or length"},
		{"tx_cm_dropped", c.madsDropped, "messages of the connection manager dropped because too many waited"},
		{"cm_repeated", conn.Repeated, "messages of the connection manager sent again because no answer came"},
		{"cm_requests_dropped", conn.Overflow + conn.NotTaken + conn.Dropped, "requests and messages dropped because their application did not take earlier ones"},
		{"cm_unexpected", conn.Unexpected + conn.Unowned + conn.Malformed, "messages that fit no connection, or not its state"},
		{"cm_steer_errors", conn.SteerErrors, "messages that ingress could not be told to hand over"},
		{"sync_errors", c.syncErrors, "reports to the destination table that failed"},
		{"events_lost", d.eventsLost.Load(), "asynchronous events lost because the queue was full"},
		{"precredit_granted", pre.given, "pre-credit given to peers, bytes"},
		{"precredit_delivered", pre.drained, "of it, bytes of payload that arrived"},
		{"precredit_wasted", pre.wasted, "of it, bytes that came back unused or were lost"},
		{"precredit_reclaimed", pre.reclaimed, "of these, bytes taken back from silent peers"},
		{"precredit_outstanding", pre.outstanding, "of it, bytes unused at peers or in flight now"},
		{"precredit_used", pre.used, "bytes of payload sent on pre-credit of peers"},
		{"precredit_returned", pre.returned, "bytes of pre-credit of peers given up unused"},
		{"precredit_blocked", pre.withheld, "times that a large flow without pre-credit was blocked until the first ACK"},
		{"precredit_ramps", pre.ramps, "times that the window of a start began at what was in flight"},
		{"precredit_grants_sent", pre.grants, "CREDIT_GRANT messages sent"},
		{"precredit_returns_sent", pre.returns, "CREDIT_RETURN messages sent"},
		{"precredit_ignored", pre.ignored, "such messages from hosts with which there is no pre-credit"},
		{"queue_pairs", uint64(qps), "queue pairs that exist now"},
	}
	var rx [3]uint64
	for _, s := range d.socks {
		if st, err := s.Stats(); err == nil {
			rx[0] += st.RxDropped
			rx[1] += st.RxRingFull
			rx[2] += st.RxFillEmpty
		}
	}
	list = append(list,
		counter{"rx_xsk_dropped", rx[0], "packets that the kernel could not put into a frame"},
		counter{"rx_xsk_ring_full", rx[1], "packets that found the receive ring full"},
		counter{"rx_xsk_fill_empty", rx[2], "times that the kernel found no free frame"})
	out := make([]verbs.Counter, len(list))
	for i, c := range list {
		out[i] = verbs.Counter(c)
	}
	return out
}

// counter is a verbs.Counter whose literals need no field names.
type counter struct {
	Name  string
	Value uint64
	Text  string
}
