// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"fmt"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// The whole table as text, so that a change of it shows in a review.
func TestOpcodeTable(t *testing.T) {
	names := []string{"FETH", "DETH", "RETH", "AtomicETH", "AETH", "AtomicAckETH", "ImmDt", "IETH", "SACK", "Hello", "Grant", "Return", "Echo", "RateLimit", "OETH", "OACK", "ONotify", "ONotifyAck", "ONak"}
	positions := []string{"-", "first", "middle", "last", "only"}
	var b strings.Builder
	fmt.Fprintln(&b, "# opcode name class position headers bytes payload request; written by UPDATE=1 go test -run OpcodeTable")
	for i := range 256 {
		info := Opcode(i).Info()
		if !Opcode(i).Known() {
			continue
		}
		var ext []string
		for j, n := range names {
			if info.Ext&(1<<j) != 0 {
				ext = append(ext, n)
			}
		}
		fmt.Fprintf(&b, "%02x %-23s %-8s %-7s %-18s %2d %-5v %v\n",
			i, Opcode(i), info.Class, positions[info.Position], "["+strings.Join(ext, " ")+"]", info.ExtLen, info.Payload, info.Request)
	}
	const file = "testdata/opcodes.golden"
	testkit.Golden(t, file, b.String())
}

// The class is bits 7:5 of the opcode for everything that IBTA defines.
func TestOpcodeClassBits(t *testing.T) {
	classes := map[Opcode]Class{0: ClassRC, 1: ClassUC, 3: ClassUD, 4: ClassCNP, 6: ClassControl}
	for i := range 256 {
		op := Opcode(i)
		if want := classes[op>>5]; op.Known() && op.Class() != want {
			t.Errorf("%s is %s, want %s", op, op.Class(), want)
		}
	}
	equal(t, "unknown opcode", Opcode(0x15).String(), "OPCODE_0x15")
	equal(t, "unknown opcode", Opcode(0x05|0xE0).String(), "OPCODE_0xe5")
}
