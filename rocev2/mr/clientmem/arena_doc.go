// SPDX-License-Identifier: Apache-2.0

package clientmem

// An arena is memory that an application and a NIC in another process have both mapped (S2):
// regions of it are read and written without a system call, as fast as memory of the NIC's own
// process.
//
//	a, err := clientmem.CreateArena(64 << 20)  // one side
//	buf, err := a.Alloc(1 << 20)
//	... send a.FD() over a UNIX socket, and a.Offset(buf) with a registration ...
//
//	a, err := clientmem.OpenArena(fd, limit)  // the other side
//	b, err := a.Slice(offset, length)          // for mr.Spec.Host, with Spec.VA as the application names it
//
// An arena is a memfd (memfd_create(2)) whose size is sealed. OpenArena refuses everything else,
// because an application that truncates the file would take the memory away from the NIC.
// Nothing is in an arena but data of the application: what the other side writes there at any
// time is neither an address nor a length for the NIC.
//
// The application may still punch pages out of the file (fallocate(2)). Accesses then find
// zeros. Pages count for the memory cgroup that touches them first, so the limit of OpenArena is
// also what an application can make the NIC's process allocate.
