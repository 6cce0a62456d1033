// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/hwoffload/rtl"
	"github.com/softroce/softroce-xdp/hwoffload/vectors"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

var (
	rtlStreams   = flag.Int("rtl.streams", 100, "random streams of TestRTL, of 200 events each")
	rtlMutations = flag.Int("rtl.mutations", 1, "mutations of TestRTLFindsMutations: each is compiled")
)

func startRTL(t testing.TB, sources []rtl.Source) *rtl.Card {
	t.Helper()
	require.Command(t, rtl.Programs...)
	c, err := rtl.StartSources(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func sources(t testing.TB) []rtl.Source {
	t.Helper()
	s, err := rtl.Sources()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// streams are the vectors written by hand, and n random ones.
func streams(n int) []vectors.Vector {
	all := vectors.All()
	for seed := range n {
		all = append(all, randomVector(seed))
	}
	return all
}

// randomVector is a stream by its number.
func randomVector(seed int) vectors.Vector {
	v := vectors.Random(uint64(seed), 200)
	v.Name = fmt.Sprintf("random, seed %d", seed)
	return v
}

// The RTL has the same bits as the model after every event (S1.3 to S1.6).
func TestRTL(t *testing.T) {
	c, events := startRTL(t, sources(t)), 0
	for _, v := range streams(*rtlStreams) {
		text := vectors.Explain(&v, vectors.Model, vectors.RTL(c))
		if c.Err() != nil {
			t.Fatal(c.Err())
		}
		if text != "" {
			t.Fatalf("%s: model and RTL differ: %s", v.Name, text)
		}
		events += len(v.Events)
	}
	t.Logf("%d events are equal", events)
}

// A model that decides itself has the same bits as one that the policy loop evaluates.
func TestDecide(t *testing.T) {
	decisions := uint32(0)
	for _, v := range streams(100) {
		if text := vectors.Explain(&v, vectors.Model, vectors.DecidingModel); text != "" {
			t.Fatalf("%s: the deciding model differs: %s", v.Name, text)
		}
		if v.Params.Mode == fourcase.ModeLiteral {
			c := vectors.DecidingModel(&v)
			for i := range v.Events {
				c.Do(&v.Events[i])
			}
			decisions += c.Regs().Policy.Decisions
		}
	}
	if decisions < 100 {
		t.Errorf("%d decisions of mode literal", decisions)
	}
}

// An RTL with one comparison or one constant changed does not have the same bits: the streams
// of TestRTL find it.
func TestRTLFindsMutations(t *testing.T) {
	mutations := []struct{ file, text, mutated string }{
		{"stamp_times.sv", "total <= MAX_RTT", "total < MAX_RTT"},
		{"receive_update.sv", "smaller = a < b ? a : b;", "smaller = a > b ? a : b;"},
		{"four_case.sv", "trend_rx > band", "trend_rx >= band"},
		{"entry_engine.sv", "rate != held[RATE+:64] ||", "rate == held[RATE+:64] ||"},
	}
	for _, m := range mutations[:min(len(mutations), *rtlMutations)] {
		t.Run(m.text, func(t *testing.T) {
			mutant := sources(t)
			i := slices.IndexFunc(mutant, func(s rtl.Source) bool { return s.Name == m.file })
			if i < 0 || strings.Count(mutant[i].Text, m.text) != 1 {
				t.Fatalf("%s does not have %q once: adapt the mutation", m.file, m.text)
			}
			mutant[i].Text = strings.Replace(mutant[i].Text, m.text, m.mutated, 1)
			c := startRTL(t, mutant)
			for _, v := range streams(100) {
				i := vectors.FirstDifference(&v, vectors.Model, vectors.RTL(c))
				if c.Err() != nil {
					t.Fatal(c.Err())
				}
				if i >= 0 {
					t.Logf("%s finds it at event %d", v.Name, i)
					return
				}
			}
			t.Error("no stream finds the mutation")
		})
	}
}

// BenchmarkRTL measures the cycles that the RTL takes for a packet and for a decision; the
// latter contains setting the clock and the access with the command.
func BenchmarkRTL(b *testing.B) {
	c := startRTL(b, sources(b))
	v := vectors.All()[1] // the four cases
	cycles, count, most := map[bool]uint64{}, map[bool]uint64{}, uint64(0)
	for range b.N {
		rtl := vectors.RTL(c)(&v)
		for i := range v.Events {
			e := v.Events[i]
			before := c.Cycles()
			rtl.Do(&e)
			took := c.Cycles() - before
			cycles[e.Evaluate] += took
			count[e.Evaluate]++
			most = max(most, took)
		}
	}
	if c.Err() != nil {
		b.Fatal(c.Err())
	}
	b.ReportMetric(float64(cycles[false])/float64(count[false]), "cycles/packet")
	b.ReportMetric(float64(cycles[true])/float64(count[true]), "cycles/decision")
	b.ReportMetric(float64(most), "cycles/longest")
}
