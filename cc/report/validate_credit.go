// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
	"github.com/softroce/softroce-xdp/cc/sim/schemes"
)

// creditIncast is what ExpressPass promises: no data lost however many send at
// once, and a link that is full except for what credits take of the reverse path.
func creditIncast(length time.Duration) ([]Row, error) {
	b := bottleneck{scheme: "expresspass", bps: 100e9, delay: 2 * time.Microsecond, senders: 64, settle: length / 2, length: length}
	o, err := b.run()
	if err != nil {
		return nil, err
	}
	const full = 1082.0 / (1082 + sim.CreditWireBytes)
	return []Row{
		{ID: "E1", What: "64:1 at 100 Gb/s, data packets lost", Scheme: "expresspass", Paper: Range{0, 1e-9}, Ours: float64(o.dropped), OK: o.dropped == 0,
			Note: fmt.Sprintf("highest queue %.1f kB", o.peakQueue/1e3)},
		{ID: "E1", What: "64:1 at 100 Gb/s, link", Scheme: "expresspass", Paper: at(full), Ours: o.link, OK: o.link > .97*full && o.link <= full*1.001,
			Note: fmt.Sprintf("Jain %.3f", sim.Jain(o.goodput))},
	}, nil
}

// convergence is how long two flows take until they have shared the link equally,
// give or take a fifth, for half a millisecond, when the second joins. ExpressPass'
// paper has it up to 80 times faster than DCTCP at 10 Gb/s.
func convergence(length time.Duration) ([]Row, error) {
	const sample = 100 * time.Microsecond
	took := map[string]time.Duration{}
	for _, name := range []string{"expresspass", "dctcp"} {
		s, err := schemes.New(name)
		if err != nil {
			return nil, err
		}
		n, err := sim.New(sim.Config{Seed: 1, BufferBytes: buffer}, star(3, 10e9, 10*time.Microsecond), s)
		if err != nil {
			return nil, err
		}
		join := length / 10
		var flows []*sim.Flow
		for i, start := range []time.Duration{0, join} {
			f, err := n.Add(sim.FlowSpec{Src: 1 + i, Dst: 0, Bytes: endless, Start: start})
			if err != nil {
				return nil, err
			}
			flows = append(flows, f)
		}
		series, err := n.Watch(3, 0, flows, sample)
		if err != nil {
			return nil, err
		}
		n.Run(length)
		took[name] = firstShare(series, join)
	}
	r := float64(took["dctcp"]) / float64(took["expresspass"])
	return []Row{{ID: "E1", What: "two flows at 10 Gb/s, time to share: DCTCP's over ExpressPass'", Scheme: "expresspass", Paper: Range{2, 80}, Ours: r,
		OK: r >= 2, Note: fmt.Sprintf("%v against %v", took["expresspass"], took["dctcp"])}}, nil
}

// firstShare is when, after a moment, two flows' goodput over five samples is
// first within a fifth.
func firstShare(s *sim.Series, join time.Duration) time.Duration {
	const window = 5
	for i := window; i < len(s.At); i++ {
		if s.At[i-window] < join {
			continue
		}
		var g [2]float64
		for f := range g {
			for _, v := range s.Goodput[f][i-window : i] {
				g[f] += v
			}
		}
		if min(g[0], g[1]) >= .8*max(g[0], g[1]) {
			return s.At[i-1] - join
		}
	}
	return s.At[len(s.At)-1] - join
}

// firstRoundTrip is what Aeolus adds to ExpressPass: "improves the average FCT of
// ExpressPass by 56 %", the best case of its paper's workloads of small flows.
func firstRoundTrip(length time.Duration) ([]Row, error) {
	c := validateCompletion{name: "FB_Hadoop 40 %", sizes: scenario.FBHadoop, load: .4, leaves: 4, perLeaf: 16, drain: 5 * time.Millisecond}
	mean := map[string]float64{}
	var note string
	for _, name := range []string{"expresspass", "aeolus"} {
		samples, about, err := c.runScheme(name, length)
		if err != nil {
			return nil, err
		}
		n := 0.0
		for _, f := range samples {
			if f.bytes <= 100_000 {
				n++
				mean[name] += f.slowdown
			}
		}
		mean[name] /= n
		note = about
	}
	r := 1 - mean["aeolus"]/mean["expresspass"]
	return []Row{{ID: "E2", What: c.name + ", mean slowdown up to 100 kB: less by", Scheme: "aeolus", Paper: at(.56), Ours: r,
		OK: at(.56).within(r, 1.5), Note: fmt.Sprintf("%.2f against %.2f; %s", mean["aeolus"], mean["expresspass"], note)}}, nil
}
