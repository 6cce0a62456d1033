/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every counter of the data plane: SR_REASON(number, NAME, "what happened").
 * The `stats` map is indexed by the number. Go reads this very file (embedded)
 * to name the counters, so there is no second list.
 *
 * Numbers are never reused, because monitoring may store them.
 */
#ifndef SOFTROCE_REASONS_H
#define SOFTROCE_REASONS_H

#define SR_REASONS(SR_REASON) \
	SR_REASON(0, rx_stamped, "ingress: RoCEv2 packets whose stamp option was read and stripped") \
	SR_REASON(1, rx_unstamped, "ingress: RoCEv2 packets without a stamp option, passed on") \
	SR_REASON(2, rx_cnp, "ingress: congestion notification packets (opcode 0x81)") \
	SR_REASON(3, rx_steered, "ingress: packets redirected to the engine's AF_XDP socket") \
	SR_REASON(4, rx_unknown_peer, "ingress: stamped packets from an address without a table entry") \
	SR_REASON(5, rx_fragment, "ingress: IP fragments, passed unread") \
	SR_REASON(6, rx_ip_options, "ingress: IPv4 options in front of RoCEv2, passed unread") \
	SR_REASON(7, rx_truncated, "ingress: RoCEv2 packets shorter than their headers say, passed on") \
	SR_REASON(8, rx_bad_length, "ingress: UDP length does not fit the IP length or the BTH, or is no multiple of 4, passed on") \
	SR_REASON(9, rx_option_foreign, "ingress: surplus area without a stamp option, passed on") \
	SR_REASON(10, rx_option_checksum, "ingress: stamp option with a wrong OCS, passed on unread") \
	SR_REASON(11, rx_option_version, "ingress: stamp option of another version, stripped unread") \
	SR_REASON(12, rx_strip_failed, "ingress: the kernel refused to shorten the packet; the option stays behind the IP datagram as padding") \
	SR_REASON(13, rx_echo_stale, "ingress: echoes of packets that left under an earlier rate, not sampled") \
	SR_REASON(14, hello_answered, "control: HELLOs answered with HELLO_ACK") \
	SR_REASON(15, hello_limited, "control: HELLOs over the answer rate, dropped") \
	SR_REASON(16, hello_ack, "control: HELLO_ACKs received") \
	SR_REASON(17, control_bad_icrc, "control: packets with a wrong ICRC, dropped") \
	SR_REASON(18, control_malformed, "control: packets of a wrong length or version, dropped") \
	SR_REASON(19, control_unknown, "control: unknown opcodes of the manufacturer range, dropped") \
	SR_REASON(20, hello_ack_forged, "control: HELLO_ACKs without the right nonce, dropped") \
	SR_REASON(21, events_lost, "events lost because the ring buffer was full") \
	SR_REASON(22, tx_stamped, "egress: RoCEv2 packets that left with a stamp option") \
	SR_REASON(23, tx_unaware, "egress: packets to peers not known to understand the option, left unstamped") \
	SR_REASON(24, tx_too_big, "egress: packets that exceed the MTU with the option, left unstamped") \
	SR_REASON(25, tx_udp_checksum, "egress: packets with a UDP checksum, left unstamped (RoCEv2 sends zero)") \
	SR_REASON(26, tx_stamp_failed, "egress: the kernel refused to lengthen the packet, left unstamped") \
	SR_REASON(27, tx_gso, "egress: segmentation-offload packets to port 4791, left unstamped") \
	SR_REASON(28, tx_malformed, "egress: packets to port 4791 that are not RoCEv2, passed untouched") \
	SR_REASON(29, tx_table_full, "egress: packets to new destinations while the table was full, passed unpaced") \
	SR_REASON(30, tx_paced, "egress: packets that the pacer delayed") \
	SR_REASON(31, tx_policed, "egress: packets that the police pacer dropped") \
	SR_REASON(32, tx_fail_open, "egress: packets let through unpaced because the agent's heartbeat stopped") \
	SR_REASON(33, tx_fragment, "egress: IP fragments, passed untouched") \
	SR_REASON(34, tx_ip_options, "egress: IPv4 options in front of RoCEv2, passed unstamped") \
	SR_REASON(35, active_lost, "active destinations not evaluated in time because the active queue was full") \
	SR_REASON(36, tx_option_foreign, "egress: packets with UDP options of their sender, left as they are") \
	SR_REASON(37, rx_other_host, "ingress: RoCEv2 packets to another MAC address, passed unread") \
	SR_REASON(38, rx_steer_missed, "ingress: packets to the engine without a socket on their receive queue, passed on") \
	SR_REASON(39, tx_overflow, "egress: packets behind more than 8 s of others in the pacer; they are delayed, but do not lengthen the backlog") \
	SR_REASON(40, hello_to_agent, "control: HELLOs left to the agent to answer (veth)") \
	SR_REASON(41, rx_echo_absurd, "ingress: echoes with an RTT below zero or above ten seconds, ignored") \
	SR_REASON(42, echo_sent, "control: ECHOs sent, for stamped data without another answer") \
	SR_REASON(43, echo_received, "control: ECHOs received") \
	SR_REASON(44, echo_unknown, "control: ECHOs from an address without a table entry, dropped unread") \
	SR_REASON(45, rx_token_wrong, "ingress: stamp options without the token that HELLO_ACK gave the peer, stripped unread") \
	SR_REASON(46, rx_unproven, "ingress: CNPs, NAKs and CE marks that may be forged: passed on, not used by the policy") \
	SR_REASON(47, tx_foreign, "egress: packets to port 4791 that neither the kernel's RoCE driver nor root has sent, passed untouched") \
	SR_REASON(48, rx_cm_steered, "ingress: messages of communication managers for the engine's listeners and connections, contained in rx_steered") \
	SR_REASON(49, rx_cm_passed, "ingress: packets to queue pair 1 left to the kernel stack while the engine has a communication manager") \
	SR_REASON(50, rate_limit, "control: RATE_LIMITs received, which limit what this host sends to a peer") \
	SR_REASON(51, rate_limit_old, "control: RATE_LIMITs with the epoch of the limit in force or an earlier one, dropped") \
	SR_REASON(52, rate_limit_unknown, "control: RATE_LIMITs from an address without a table entry, dropped unread") \
	SR_REASON(53, rate_limit_sent, "control: RATE_LIMITs sent to hosts that share the link of this one") \
	SR_REASON(54, rx_over_limit, "ingress: packets above what their sender may send to this host, dropped") \
	SR_REASON(55, rx_forwarded, "ingress: RoCEv2 packets to an IP address of another host, passed unread") \
	SR_REASON(56, tx_other_source, "egress: packets from a MAC or IP address of another host, passed untouched") \
	SR_REASON(57, tx_no_token, "egress: packets from a source without a token yet, left unstamped; feedback is dropped") \
	SR_REASON(58, rx_vlan, "ingress: RoCEv2 packets with the tag of a VLAN, passed unread") \
	SR_REASON(59, tx_vlan, "egress: RoCEv2 packets of a VLAN interface, passed untouched") \
	SR_REASON(60, rx_extension, "ingress: IPv6 extension headers in front of RoCEv2, passed unread") \
	SR_REASON(61, tx_extension, "egress: IPv6 extension headers in front of RoCEv2, passed untouched")

#define SR_REASON_ENUM(number, name, text) SR_STAT_##name = number,
enum sr_reason {
	SR_REASONS(SR_REASON_ENUM)
	SR_STAT_MAX = 64,
};

#endif
