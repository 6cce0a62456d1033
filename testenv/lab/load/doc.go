// SPDX-License-Identifier: Apache-2.0

// Package load generates RoCEv2 traffic from UDP sockets: RDMA WRITEs one way,
// ACKs and NAKs the other, with valid ICRCs and every payload byte checked. It
// loads topologies without a virtual machine or RDMA hardware.
//
// It is independent of the engine, for two reasons. The packets pass the kernel
// stack, the egress program and the pacer, as those of Linux rxe do. The engine sends by
// AF_XDP, paces and stamps by itself, and takes no such path. And it is a second
// opinion on the wire: it has its own sender and responder of RC, so that it judges
// what the data plane does to packets of another implementation (order, options,
// ICRCs, bytes) where two engines could share a fault. Only the codec of
// package rocev2 is the same, which scapy and tshark judge.
//
// It speaks the part of RC that a bulk writer shows on the wire: WRITE FIRST,
// MIDDLE, LAST and ONLY, AckReq on the last packet of a message and every few in
// between, coalesced ACKs, one PSN sequence NAK per gap, go-back-N. There is no
// connection set-up: both ends derive the first PSN and the R_Key from the QP
// number, which the sender draws at random.
//
// Valid ICRCs from a plain socket rest on the kernel's IPv4 header being
// predictable: an unconnected UDP socket with IP_MTU_DISCOVER = DO sends id 0 and
// DF, and all else that the kernel chooses is masked in the ICRC. UDP checksums
// are off, as in RoCEv2.
//
//	sender.go     requester state, pure
//	responder.go  responder state, pure
//	pattern.go    what the bytes are
//	socket.go     UDP sockets that send predictable headers
//	endpoint.go   one address: receives, answers, hands ACKs to its senders
//	flow.go       one destination: the sending loop and its time series
package load
