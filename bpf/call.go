// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
)

// Two programs are attached nowhere and only called, by BPF_PROG_TEST_RUN: agent_call for the
// agent, engine_sync for the engine. lib/call.h and struct sr_call have the convention.

// callHeader is struct sr_call.
type callHeader struct {
	op    uint32 // operation
	count uint32 // number of slots
	zero  uint64
}

// bytes views the header as the data of a call.
func (h *callHeader) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(h)), unsafe.Sizeof(*h))
}

// call calls a program with data, which starts with a callHeader. The program's answer is
// written to out; nil if the program has none. It returns the number of slots done.
func call(prog *ebpf.Program, name string, data, out []byte) (int, error) {
	done, err := prog.Run(&ebpf.RunOptions{Data: data, DataOut: out})
	if err != nil {
		return 0, fmt.Errorf("%s program: %w", name, err)
	}
	if done == callInvalid {
		return 0, fmt.Errorf("%s program: unknown operation %d", name, binary.NativeEndian.Uint32(data))
	}
	return int(done), nil
}
