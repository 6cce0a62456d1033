// SPDX-License-Identifier: Apache-2.0

package clientmem

// Process is the memory of another process as memory of a NIC (S2): a mr.Backend for buffers that an application has
// allocated itself.
//
// The application opens three files of its own process and passes the descriptors, for
// example over a UNIX socket (SCM_RIGHTS):
//
//	files, err := clientmem.Self()                   // application
//	... send files.FDs() ...
//	err = clientmem.Populate(addr, length, true)     // before each registration
//
//	p, err := clientmem.OpenProcess(mem, maps, pagemap)     // device server
//	spec, err := p.Spec(addr, length, access)      // checks the memory
//	region, err := pd.Register(spec)
//
// The server needs no privilege for that, not CAP_SYS_PTRACE either: the kernel checks access
// when /proc/self/mem is opened. The descriptor belongs to the address space and not to the
// process ID. Once the process has ended or executes another program, each access fails with
// [ErrEnded], and no other process is reached.
//
// # What the descriptor does not respect
//
// The kernel ignores page protection: a write through the descriptor changes a read-only
// private mapping. It delivers no userfaultfd fault: a page that a handler must fill first is
// an I/O error. [Process.Check] therefore refuses, when memory is registered:
//
//   - addresses without a mapping
//   - memory that the process itself cannot read, or for verbs.AccessLocalWrite cannot write
//   - pages that are not there yet, see [Populate]
//   - pages that a userfaultfd handler has write-protected, for verbs.AccessLocalWrite
//   - memory that the kernel does not access for another process: of devices, of memfd_secret
//
// A process may change its mappings after the check. An access to memory that is not there
// any more fails as failed memory does (NAK 0x63, remote operation error). Protection that
// changes later is not noticed. All of that concerns memory of the same process only.
//
// # Atomics
//
// CompareSwap and FetchAdd are atomic towards each other, for all processes that one server
// serves. They are not atomic towards instructions of the application, nor towards the same
// memory registered in another way. This is IBV_ATOMIC_HCA of the verbs (IBTA 10.6.1):
// an application reads the 8 bytes when a completion says that they have changed.
//
// # Time
//
// A write of 4 KB takes about three times as long as a copy in the own memory, one of 1 KB about
// five times. BenchmarkWrite prints that, and BenchmarkDevice what it costs an engine. Memory of
// an arena has no such cost.
//
// An access is a system call that may wait: for the process's mmap_lock, which fork holds while
// it copies page tables; for the swap device; for a file system that serves a mapping. A process
// can make it wait without end with a FUSE file system of its own, and SIGKILL does not end that.
// [Guard] and [FileSystems] are for a server that has other processes to serve.
