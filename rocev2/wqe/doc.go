// SPDX-License-Identifier: Apache-2.0

// Package wqe has the entries of send queues, receive queues and completion queues as bytes: the
// layouts and the codec from and to package verbs. Internal to this project. Card and software NIC
// use the same entries.
//
// The layouts are generated from hwoffload/regs/queue/*.yaml; docs/card/card-registers.md has them as
// tables. Words are little-endian. A send entry is
//
//	0   wqe        operation, flags, number of elements, ID
//	16  wqe_rdma, wqe_ud or wqe_bind, by operation and service
//	64  elements of the list (sge), or the inline data
//
// and a receive entry is wqe_recv with the elements behind it at 16. An entry has a fixed length
// for a queue; SendBytes and RecvBytes return what a work request needs.
//
// # Bytes of others
//
// A decoder gets bytes that another process may have written, and which that process may change at
// any time. So the caller copies an entry first and decodes the copy. The decoder returns false for
// an entry that contradicts itself: an unknown operation, or more elements than the entry has room
// for. It does not judge the rest; PostSend of a queue pair does.
package wqe
