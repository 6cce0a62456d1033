// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// sharing is a device with memory of its own.
type sharing struct {
	verbs.Device
	memory []byte
}

func (s *sharing) Alloc(n int) ([]byte, error) { return s.memory[:n], nil }
func (s *sharing) Free([]byte) error           { return nil }

// Memory is the device's, if it has some, but not that of a run with private memory.
func TestMemoryOf(t *testing.T) {
	dev := &sharing{memory: make([]byte, 4096)}
	for _, private := range []bool{false, true} {
		b, free, err := memoryOf(dev, 4096, private)
		if err != nil {
			t.Fatal(err)
		}
		if own := &b[0] == &dev.memory[0]; len(b) != 4096 || own == private {
			t.Errorf("private %v: %d bytes, of the device: %v", private, len(b), own)
		}
		testkit.Must(t, free(b))
	}
}
