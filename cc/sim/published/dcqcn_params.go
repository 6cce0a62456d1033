// SPDX-License-Identifier: Apache-2.0

package published

import "fmt"

// DCQCNParams are the reaction point's and notification point's parameters.
type DCQCNParams struct {
	LineBps float64 // line rate, at which a flow starts and which it never exceeds
	MinBps  float64

	G         float64 // weight of one step of alpha
	Stages    int     // F: steps of fast recovery
	AlphaNs   int64   // alpha decays once per this time without a CNP
	IncrNs    int64   // increase timer
	IncrBytes int64   // increase byte counter B, 0 = none
	AIBps     float64 // additive step of the target
	HAIBps    float64 // hyper step of the target
	CNPGapNs  int64   // notification point: least time between two CNPs of a flow

	// CutNs > 0 makes the reaction point look for CNPs at multiples of CutNs
	// after the first instead of cutting at each, and count time steps only, as
	// DCQCNConnectX does.
	CutNs int64
	// ClampTarget lowers the target to the current rate at every cut. Without
	// it, cuts in a row keep the target of the first. Used with CutNs > 0; the
	// paper always does.
	ClampTarget bool
}

// DCQCNPaper is the algorithm of the SIGCOMM text: CNPs at most every 50 us, timers of
// 55 us, F = 5, B = 10 MB, 40 Mb/s steps at 40 Gb/s scaled to the line. The hyper
// step is not in the text; ten additive steps is what its authors' code uses.
func DCQCNPaper(lineBps float64) DCQCNParams {
	return DCQCNParams{
		LineBps:   lineBps,
		MinBps:    lineBps / 1000,
		G:         1.0 / 256,
		Stages:    5,
		AlphaNs:   55_000,
		IncrNs:    55_000,
		IncrBytes: 10_000_000,
		AIBps:     lineBps / 1000,
		HAIBps:    lineBps / 100,
		CNPGapNs:  50_000,
	}
}

// DCQCNConnectX is the configuration the HPCC paper compared with: alpha each 1 us,
// cuts each 4 us, increases each 300 us, one step of recovery, 5 and 50 Mb/s
// steps per 25 Gb/s of line, at least 1 Gb/s at 100 Gb/s.
func DCQCNConnectX(lineBps float64) DCQCNParams {
	return DCQCNParams{
		LineBps:  lineBps,
		MinBps:   lineBps / 100,
		G:        1.0 / 256,
		Stages:   1,
		AlphaNs:  1_000,
		IncrNs:   300_000,
		AIBps:    5e6 * lineBps / 25e9,
		HAIBps:   50e6 * lineBps / 25e9,
		CNPGapNs: 0,
		CutNs:    4_000,
	}
}

// Validate tells what is wrong with p, if anything.
func (p *DCQCNParams) Validate() error {
	switch {
	case p.LineBps <= 0:
		return fmt.Errorf("dcqcn: line rate %g bit/s: must be positive", p.LineBps)
	case p.MinBps <= 0 || p.MinBps > p.LineBps:
		return fmt.Errorf("dcqcn: least rate %g bit/s: must be above 0 and at most the line rate", p.MinBps)
	case p.G <= 0 || p.G > 1:
		return fmt.Errorf("dcqcn: g %g: must be above 0 and at most 1", p.G)
	case p.AlphaNs <= 0 || p.IncrNs <= 0:
		return fmt.Errorf("dcqcn: alpha timer %d ns, increase timer %d ns: must be positive", p.AlphaNs, p.IncrNs)
	case p.CutNs < 0 || p.CNPGapNs < 0 || p.IncrBytes < 0 || p.Stages < 0:
		return fmt.Errorf("dcqcn: times, bytes and stages must not be negative")
	}
	return nil
}
