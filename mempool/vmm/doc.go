// SPDX-License-Identifier: Apache-2.0

// Package vmm is the virtual memory manager of the memory pool (S4.4): memory of which a part is
// local, and the rest in a Store, for example the memory of a pool server. Local memory is used
// first. When the free local memory is at or below a threshold, pages that were not accessed for
// long are moved to the store, and come back when they are accessed.
//
// There are two ways to access such memory:
//
//	Region   ReadAt, WriteAt and Pin; works everywhere, without privileges
//	Map      a plain []byte; needs Linux 6.6 and the right to use userfaultfd
//
// # Region
//
//	r, err := vmm.NewRegion(vmm.Config{Size: 4 << 30, Local: 1 << 30}, store)
//	_, err = r.WriteAt(data, 0)
//	b, release, err := r.Pin(0, 1<<20, true)   // ordinary memory until release is called
//
// # Map
//
// A thread that accesses a page which is not local waits until the page is there. The faults are
// handled by another process, the handler, since a Go program cannot handle its own: with
// GOMAXPROCS=1 nothing else runs while a goroutine waits for a page, and the garbage collector
// waits for that goroutine as well. The handler is the same program, started again: Main is the
// first call of main, and opens the store in the handler.
//
//	func main() {
//		vmm.Main(openStore)
//		...
//		m, err := vmm.NewMap(vmm.MapConfig{Config: vmm.Config{Size: 4 << 30, Local: 1 << 30}, Store: "name"})
//		b := m.Bytes()
//		err = vmm.Try(func() { sum = add(b) })
//
// Three processes share the userfaultfd: the application, which makes and maps the memory; the
// handler; and the guardian, a child of the handler, which watches it.
//
// # A page that cannot be had
//
// An access never reads zeroes or stale bytes in place of the content. It ends with a *PageError:
// Region returns it, and a later access may succeed. A map poisons the page (UFFDIO_POISON), which
// is final: Try returns the error, and without Try the program ends with SIGBUS. The cause is one
// of
//
//	the error of the store   a READ failed
//	ErrDeadline              a READ was not completed in time (Config.Deadline, 2 s by default)
//	ErrNoRoom                no local page became free in time; with the error of the last WRITE
//	ErrHandler               the handler ended: all pages that were not local are lost (a map)
//	ErrClosed                the region or map was closed
//
// A handler that ends, by kill -9 for example, is noticed by the guardian at once. One that hangs
// is noticed after 10 s, and killed. Local pages keep their content, and can still be written.
//
// # What a map cannot do
//
//   - While an access waits, its thread runs no other goroutine, and the garbage collector waits
//     for it if the access is not preemptible (copy).
//   - A child process does not inherit the memory. The memory must not be given to madvise,
//     mremap, munmap or mprotect.
//   - Reads of local pages are not seen. The clock knows writes and faults only.
//   - RDMA registration of the memory by another process's descriptor is refused by package
//     rocev2/mr/clientmem, as for all memory whose pages may be missing.
//   - The content is lost when the map is closed or its program ends.
//
// # Files
//
//	pager.go evict.go prefetch.go page.go   the state machine of the pages
//	trend.go                                majority-trend prefetch (Leap)
//	space.go                                the pager with its lock, store and clock
//	memory.go region.go config.go           Region
//	map.go try.go                           Map in the application
//	process.go handler.go spin.go guardian.go
//	                                        the other processes
//	uffdmemory.go                           local memory of a map, from the handler
//	uffd.go                                 ioctls of userfaultfd; all that is unsafe
//	support.go                              what a map needs of the kernel
//	store.go errors.go stats.go             the interface of stores; errors; counters
package vmm
