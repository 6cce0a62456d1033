// SPDX-License-Identifier: Apache-2.0

// Package xsk opens AF_XDP sockets: a receive queue of an interface, and a way to transmit on the
// queue of the same number, through memory that is shared with the kernel (Linux
// Documentation/networking/af_xdp.rst). Internal to this project. It serves S2: the NIC's engine
// sees whole Ethernet frames and the kernel's stack does not.
//
// A socket has its own memory (UMEM), cut into frames of one size. Some belong to
// reception, the others to transmission, and no frame ever changes sides:
//
//	fill ring ──► kernel ──► rx ring ──► Batch ──► Release ──► fill ring
//	free slots ──► Frame ──► Push, Submit ──► tx ring ──► Kick ──► completion ring ──► free slots
//
// Receive lends frames to a Batch until its Release. Frame lends one transmit slot
// until its Push. A Packet that outlived its batch panics when it is read; under
// the race detector frames are moreover poisoned when they go back, and a slot that
// was written to after its Push makes the next Frame panic.
//
// # Concurrency
//
// One goroutine owns a socket and calls everything. Kick, Wake, Pending, Stats, FD
// and Mode may run on any others at the same time, with each other, and with Close:
// in copy mode Kick does the whole transmission on the calling CPU, so one core may
// build packets while another kicks. Close is the owner's.
//
// # Copy and zero-copy
//
// Without a driver that supports zero-copy (veth, tap, most virtual NICs) the kernel
// copies between UMEM and its own buffers. A frame of FrameSize bytes then receives
// at most FrameSize-256; longer packets come as several frames, if Config.SG is set.
package xsk
