// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// steerToFirst has the tap hand all packets to a machine by the first queue pair.
//
// By itself a tap sends a flow to the queue that the machine last answered it from. Once native
// XDP has made the driver use a second pair (for XDP_TX), a flow that starts on that one moves
// with the machine's first answer, and overtakes itself: rxe sees a gap and repeats.
func steerToFirst(tap *os.File) error {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "first_queue", Type: ebpf.SocketFilter, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return fmt.Errorf("rxepeer: steering program of a tap: %w", err)
	}
	defer prog.Close() // the tap holds it
	if err := unix.IoctlSetPointerInt(int(tap.Fd()), unix.TUNSETSTEERINGEBPF, prog.FD()); err != nil {
		return fmt.Errorf("rxepeer: steer the queues of a tap: %w", err)
	}
	return nil
}
