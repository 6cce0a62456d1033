// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// Series is a time series of one port's queue and of some flows' goodput. The
// values at At[i] are the queue then and the goodput of the period before.
type Series struct {
	Period     time.Duration
	At         []time.Duration
	QueueBytes []int64
	// Utilisation of the port, and per flow the goodput in bit/s.
	Utilisation []float64
	Goodput     [][]float64
}

// Watch samples the port of a node towards a neighbour and some flows, every
// period from now on.
func (n *Net) Watch(from, to int, flows []*Flow, period time.Duration) (*Series, error) {
	pi, err := n.port(from, to)
	if err != nil {
		return nil, err
	}
	s := &Series{Period: period, Goodput: make([][]float64, len(flows))}
	tx, received := n.ports[pi].txBytes, make([]int64, len(flows))
	for i, f := range flows {
		received[i] = f.received
	}
	n.Every(n.Now()+period, period, func() {
		p := &n.ports[pi]
		s.At = append(s.At, n.Now())
		s.QueueBytes = append(s.QueueBytes, p.queueBytes)
		s.Utilisation = append(s.Utilisation, float64(p.txBytes-tx)*8/float64(p.bps)/period.Seconds())
		tx = p.txBytes
		for i, f := range flows {
			s.Goodput[i] = append(s.Goodput[i], float64(f.received-received[i])*8/period.Seconds())
			received[i] = f.received
		}
	})
	return s, nil
}

// Converged is how long after from the flows' goodput became and stayed fair: the
// time of the first sample from which on Jain's index, over the mean of window
// samples, is at least jain in all but a hundredth of the samples. false = never.
func (s *Series) Converged(from time.Duration, window int, jain float64) (time.Duration, bool) {
	window = max(window, 1)
	shares := make([]float64, len(s.Goodput))
	good, seen := 0, 0
	first := -1
	for i := len(s.At) - 1; i >= window-1 && s.At[i] >= from; i-- {
		for k, g := range s.Goodput {
			shares[k] = 0
			for _, v := range g[i-window+1 : i+1] {
				shares[k] += v
			}
		}
		seen++
		if Jain(shares) >= jain {
			good++
			if float64(good) >= 0.99*float64(seen) {
				first = i
			}
		} else if float64(good) < 0.99*float64(seen) && seen > 100 {
			break
		}
	}
	if first < 0 {
		return 0, false
	}
	return s.At[first] - from, true
}
