// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"runtime"
	"runtime/debug"

	"github.com/softroce/softroce-xdp/rocev2/mem"
)

// Registered memory may go away beneath us: a mapping of a file that somebody
// truncates, or that the application unmaps too early. The signal (SIGBUS, SIGSEGV) would
// end the process, with all queue pairs of it; as a panic, which is caught, it fails
// the one access. It costs some 5 ns a copy.

// guardedCopy is copy. FaultBackend: a part of the memory is not there; how much was
// copied is not known.
func guardedCopy(dst, src []byte) (f mem.Fault) {
	defer caught(debug.SetPanicOnFault(true), &f)
	copy(dst, src)
	return mem.FaultNone
}

// guardedPut is t.Put(dst, src). FaultBackend: a part of src is not there.
func guardedPut(t mem.Transform, dst, src []byte) (f mem.Fault) {
	defer caught(debug.SetPanicOnFault(true), &f)
	t.Put(dst, src)
	return mem.FaultNone
}

func guardedCompareSwap(b []byte, compare, swap uint64) (old uint64, f mem.Fault) {
	defer caught(debug.SetPanicOnFault(true), &f)
	return compareSwap(b, compare, swap), mem.FaultNone
}

func guardedFetchAdd(b []byte, add uint64) (old uint64, f mem.Fault) {
	defer caught(debug.SetPanicOnFault(true), &f)
	return fetchAdd(b, add), mem.FaultNone
}

// caught ends what SetPanicOnFault began, and makes a fault of the memory an error.
// Any other panic goes on.
func caught(before bool, f *mem.Fault) {
	debug.SetPanicOnFault(before)
	r := recover()
	if r == nil {
		return
	}
	if err, ok := r.(runtime.Error); ok {
		if _, ok := err.(interface{ Addr() uintptr }); ok {
			*f = mem.FaultBackend
			return
		}
	}
	panic(r)
}
