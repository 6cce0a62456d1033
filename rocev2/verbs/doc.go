// SPDX-License-Identifier: Apache-2.0

// Package verbs has the interfaces of an RDMA device (Device, PD, CQ, QP, SRQ, AH, MR, MW) and
// the types that applications and the transport share: work requests,
// completions, states and attributes of queue pairs, access rights, events and errors. The names
// are those of the InfiniBand Architecture (IBTA, volume 1) and of libibverbs.
//
// Connect brings a queue pair from RESET to RTS. CheckSend and CheckRecv check work requests, for clients of a transport
// and for the transport itself.
//
// It is the lowest package of the transport and imports only package rocev2, and internal/platform.
package verbs

import _ "github.com/softroce/softroce-xdp/internal/platform" // 64-bit Linux only
