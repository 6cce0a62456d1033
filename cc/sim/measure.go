// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// Mark is a moment that later ones are compared with: what an interval carried.
type Mark struct {
	n        *Net
	at       tick
	tx       []uint64
	received []int64
}

// Mark remembers the counters of now.
func (n *Net) Mark() *Mark {
	m := &Mark{n: n, at: n.wheel.now}
	for i := range n.ports {
		m.tx = append(m.tx, n.ports[i].txBytes)
	}
	for _, f := range n.flows {
		m.received = append(m.received, f.received)
	}
	return m
}

// Elapsed is the time since.
func (m *Mark) Elapsed() time.Duration { return time.Duration((m.n.wheel.now - m.at).ns()) }

// Utilisation is the share of its rate that the port of a node towards a neighbour
// has carried since, all bytes of the wire counted. A packet counts when it starts,
// so that a short interval may come out slightly above 1.
func (m *Mark) Utilisation(from, to int) (float64, error) {
	pi, err := m.n.port(from, to)
	if err != nil {
		return 0, err
	}
	p := &m.n.ports[pi]
	return ratio(float64(p.txBytes-m.tx[pi])*8e12, float64(p.bps)*float64(m.n.wheel.now-m.at)), nil
}

// Goodput is the payload of a flow that has arrived since, in bit/s.
func (m *Mark) Goodput(f *Flow) float64 {
	var before int64
	if f.ID < len(m.received) {
		before = m.received[f.ID]
	}
	return ratio(float64(f.received-before)*8e12, float64(m.n.wheel.now-m.at))
}

// Jain is the fairness of the flows' goodput since.
func (m *Mark) Jain(flows []*Flow) float64 {
	rates := make([]float64, len(flows))
	for i, f := range flows {
		rates[i] = m.Goodput(f)
	}
	return Jain(rates)
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Jain is the fairness index of shares: 1 if all are equal, 1/n if one has all,
// 0 if there is nothing to share.
func Jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	return ratio(sum*sum, float64(len(shares))*squares)
}
