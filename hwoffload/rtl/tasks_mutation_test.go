// SPDX-License-Identifier: Apache-2.0

package rtl_test

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/rtl"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

var rtlMutations = flag.Int("rtl.mutations", 1, "mutations of TestTasksFindMutations: each is compiled")

// An RTL with one comparison changed does not answer as the model does: the tests above find it.
func TestTasksFindMutations(t *testing.T) {
	require.Command(t, rtl.Programs...)
	descriptors := func(m, s *tasks) string { return compareDescriptors(m, s, 3000, map[task.Status]int{}) }
	regions := func(m, s *tasks) string { _, text := compareRegions(m, s, 3000); return text }
	mutations := []struct {
		file, text, mutated string
		compare             func(m, s *tasks) string
	}{
		{"task_operand.sv", "va <= -{32'd0, length}", "va < -{32'd0, length}", descriptors},
		{"task_descriptor.sv", "operands != 3'd1 ||", "operands == 3'd0 ||", descriptors},
		{"region_accept.sv", "first_byte < {1'b0, page_bytes}", "first_byte <= {1'b0, page_bytes}", regions},
	}
	for _, m := range mutations[:min(len(mutations), *rtlMutations)] {
		t.Run(m.text, func(t *testing.T) {
			sources, err := rtl.Sources()
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(sources, func(s rtl.Source) bool { return s.Name == m.file })
			if i < 0 || strings.Count(sources[i].Text, m.text) != 1 {
				t.Fatalf("%s does not have %q once: adapt the mutation", m.file, m.text)
			}
			sources[i].Text = strings.Replace(sources[i].Text, m.text, m.mutated, 1)
			mutant, err := rtl.StartSources(t.Context(), sources)
			if err != nil {
				t.Fatal(err)
			}
			defer mutant.Close()
			text := m.compare(onModel(t), newTasks(t, mutant))
			if err := mutant.Err(); err != nil {
				t.Fatal(err)
			}
			if text == "" {
				t.Error("no descriptor or region finds the mutation")
			}
			t.Log(text)
		})
	}
}
