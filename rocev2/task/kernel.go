// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// KernelID is the number of a kernel in descriptors. Numbers from FirstOwnKernel on are for
// applications.
type KernelID uint16

// FirstOwnKernel is the first number for kernels of applications.
const FirstOwnKernel KernelID = 0x8000

// Kernel is a computation. Its methods are called by several goroutines at the same time.
type Kernel interface {
	// Check judges number, types and shapes of the operands and of the result. Each of them
	// has a length that fits its type and shape.
	Check(result Operand, operands []Operand) error

	// Run computes. in[i] has the bytes of operand i, and out those of the result, which are
	// 0 at first. Elements are little-endian. Slices are only valid during the call. An error
	// is about the values of operands. Run returns soon after ctx has ended; its result is
	// not used then.
	Run(ctx context.Context, d *Descriptor, in [][]byte, out []byte) error
}

// Registry has the kernels of an executor. All methods may be called concurrently.
type Registry struct {
	lock    sync.RWMutex
	kernels map[KernelID]named
}

type named struct {
	name string
	Kernel
}

// Register adds a kernel. Number and name must be free.
func (r *Registry) Register(id KernelID, name string, k Kernel) error {
	if name == "" || k == nil {
		return errors.New("task: a kernel needs a name and an implementation")
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if have, taken := r.kernels[id]; taken {
		return fmt.Errorf("task: kernel %#x is %s: use another number from %#x on for %s", uint16(id), have.name, uint16(FirstOwnKernel), name)
	}
	for other, have := range r.kernels {
		if have.name == name {
			return fmt.Errorf("task: kernel %#x has the name %s already", uint16(other), name)
		}
	}
	if r.kernels == nil {
		r.kernels = map[KernelID]named{}
	}
	r.kernels[id] = named{name, k}
	return nil
}

// IDs are the numbers of all kernels, sorted.
func (r *Registry) IDs() []KernelID {
	r.lock.RLock()
	defer r.lock.RUnlock()
	return slices.Sorted(maps.Keys(r.kernels))
}

// Name is the name of a kernel; empty if there is no such kernel.
func (r *Registry) Name(id KernelID) string {
	r.lock.RLock()
	defer r.lock.RUnlock()
	return r.kernels[id].name
}

// Kernel returns a kernel, or nil.
func (r *Registry) Kernel(id KernelID) Kernel {
	r.lock.RLock()
	defer r.lock.RUnlock()
	return r.kernels[id].Kernel
}

// The kernels of Builtin. docs/program/compute.md has their operands and results.
const (
	KernelAdd       KernelID = 1
	KernelSum       KernelID = 2
	KernelMin       KernelID = 3
	KernelMax       KernelID = 4
	KernelDot       KernelID = 5
	KernelGEMM      KernelID = 6
	KernelCRC32C    KernelID = 7
	KernelHistogram KernelID = 8
)

// Builtin returns a new registry with the kernels of this package.
func Builtin() *Registry {
	r := &Registry{}
	for id, k := range map[KernelID]named{
		KernelAdd: {"add", add{}}, KernelSum: {"sum", reduce{sum}}, KernelMin: {"min", reduce{smallest}},
		KernelMax: {"max", reduce{largest}}, KernelDot: {"dot", dot{}}, KernelGEMM: {"gemm", gemm{}},
		KernelCRC32C: {"crc32c", crc32C{}}, KernelHistogram: {"histogram", histogram{}},
	} {
		if err := r.Register(id, k.name, k.Kernel); err != nil {
			panic(err) // two of this list have the same number or name
		}
	}
	return r
}
