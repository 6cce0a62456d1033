// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/task"
)

// Types of a task.
type (
	Descriptor = task.Descriptor // a task: kernel, operands and result
	ID         = task.ID         // the number of a task
	Operand    = task.Operand    // memory with elements of one type
	Type       = task.Type       // the type of elements
	Shape      = task.Shape      // the extents of an operand
	Status     = task.Status     // the outcome of a task
	Error      = task.Error      // why a task failed
)

// MaxOperands is the largest number of operands of a task.
const MaxOperands = task.MaxOperands

// Types of elements. Elements are little-endian; floating point is IEEE 754.
const (
	Int8    = task.Int8
	Int16   = task.Int16
	Int32   = task.Int32
	Int64   = task.Int64
	Uint8   = task.Uint8
	Uint16  = task.Uint16
	Uint32  = task.Uint32
	Uint64  = task.Uint64
	Float32 = task.Float32
	Float64 = task.Float64
)

// Outcomes of a task.
const (
	StatusOK         = task.StatusOK
	StatusDescriptor = task.StatusDescriptor // the descriptor is not valid
	StatusKernel     = task.StatusKernel     // there is no such kernel
	StatusOperand    = task.StatusOperand    // the kernel does not take these operands, or does not give this result
	StatusTooLarge   = task.StatusTooLarge   // operands and result are longer than the executor allows
	StatusAccess     = task.StatusAccess     // an operand or the result: key, protection domain, range or rights
	StatusMemory     = task.StatusMemory     // memory failed during an access
	StatusFailed     = task.StatusFailed     // the kernel found a value that it does not take
	StatusBusy       = task.StatusBusy       // the queue is full
	StatusStale      = task.StatusStale      // the task id is older than what the executor remembers
	StatusCanceled   = task.StatusCanceled   // the origin or the executor was closed
)

// Types of kernels.
type (
	Kernel   = task.Kernel   // a computation
	KernelID = task.KernelID // the number of a kernel
	Registry = task.Registry // the kernels of an executor
)

// Kernels of Builtin. docs/program/compute.md has their operands and results.
const (
	KernelAdd       = task.KernelAdd
	KernelSum       = task.KernelSum
	KernelMin       = task.KernelMin
	KernelMax       = task.KernelMax
	KernelDot       = task.KernelDot
	KernelGEMM      = task.KernelGEMM
	KernelCRC32C    = task.KernelCRC32C
	KernelHistogram = task.KernelHistogram
)

// FirstOwnKernel is the first number for kernels of applications.
const FirstOwnKernel = task.FirstOwnKernel

// Builtin returns a new registry with the kernels of this project.
func Builtin() *Registry { return task.Builtin() }

// Types of an executor.
type (
	Executor       = task.Executor     // executes tasks on its cores
	ExecutorConfig = task.Config       // how an executor works; a zero value is the default
	CoreCounters   = task.CoreCounters // what a core has done
)

// NewExecutor starts an executor. Its Close ends it.
func NewExecutor(c ExecutorConfig) (*Executor, error) { return task.NewExecutor(c) }

// Types of memory that tasks may access on the server.
type (
	Memory  = task.Memory  // what tasks may access
	Regions = task.Regions // a Memory of regions that the application has registered
	Fault   = mem.Fault    // why an access was refused; 0 is no refusal
)

// Types for tasks of the server's own host (Executor.NewOrigin).
type (
	Origin = task.Origin // a queue of tasks
	Task   = task.Task   // what an Origin executes
	Answer = task.Answer // the outcome of a Task
)

// DefaultDepth is the Depth of a client and of a server that have none.
const DefaultDepth = task.DefaultDepth
