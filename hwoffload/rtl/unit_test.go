// SPDX-License-Identifier: Apache-2.0

// Tests of the modules one by one. Each gets random inputs in Verilator, and must answer as its
// reference in Go.

package rtl_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/rtl"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// registers is the package that most modules refer to.
const registers = "softroce_regs_pkg.sv"

// module is what one test simulates.
type module struct {
	top   string
	files []string
	ports rtl.Ports
}

// change is a mistake in a source: a mutation.
type change struct{ file, old, new string }

// start simulates a module. A change is made in its copy of the sources.
func (m *module) start(t *testing.T, changes ...change) *rtl.Bench {
	t.Helper()
	require.Command(t, rtl.Programs...)
	sources, err := rtl.ReadSources(m.files...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if err := c.apply(sources); err != nil {
			t.Fatal(err)
		}
	}
	b, err := rtl.StartBench(t.Context(), m.top, m.ports, sources...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func (c *change) apply(sources []rtl.Source) error {
	for i := range sources {
		if s := &sources[i]; s.Name == c.file && strings.Count(s.Text, c.old) == 1 {
			s.Text = strings.Replace(s.Text, c.old, c.new, 1)
			return nil
		}
	}
	return errors.New(c.file + " does not have exactly one " + c.old)
}

// quantity is how many random inputs a test takes: fewer with -short.
func quantity(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}
