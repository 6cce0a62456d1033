// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"github.com/softroce/softroce-xdp/cc/sim"
)

// meter looks at the bottleneck. advance must be called at every moment at which
// the link's rate changes.
type meter struct {
	net    *sim.Net
	at     sim.Direction
	tracer *sim.Tracer
	rates  []change // rate changes to come

	nowNs    int64
	rate     uint64  // bit/s, since nowNs
	capacity float64 // bytes that the link could have carried until nowNs
	sent     uint64  // bytes that it has, headers, preamble and gap included

	lastSent, fromSent         uint64 // bytes when last sampled; when measuring began
	lastCapacity, fromCapacity float64
	queueP50, queueP99         int64 // ns
	utilisation                float64

	startUtilisation float64 // utilisation before measuring began
	startP99         int64   // ns
}

// change is a new rate of the link.
type change struct {
	ns  int64
	bps uint64
}

func newMeter(n *sim.Net, at sim.Direction, bps uint64, changes []change) (*meter, error) {
	t, err := n.Trace(at.From, at.To)
	return &meter{net: n, at: at, tracer: t, rate: bps, rates: changes}, err
}

func (m *meter) advance() {
	now := m.net.Now().Nanoseconds()
	m.capacity += float64(m.rate) / 8e9 * float64(now-m.nowNs)
	m.nowNs = now
	for len(m.rates) > 0 && m.rates[0].ns <= now {
		m.rate, m.rates = m.rates[0].bps, m.rates[1:]
	}
	m.sent = m.port().TxBytes
}

func (m *meter) port() sim.PortStats {
	s, err := m.net.Port(m.at.From, m.at.To)
	if err != nil {
		panic(err) // Trace has found it
	}
	return s
}

// sample is the utilisation since the sample before, and how long the queue of the
// moment would take.
func (m *meter) sample() (utilisation, queueNs float64) {
	utilisation = share(m.sent-m.lastSent, m.capacity-m.lastCapacity)
	m.lastSent, m.lastCapacity = m.sent, m.capacity
	return utilisation, float64(m.port().QueueBytes) * 8e9 / float64(m.rate)
}

func share(sent uint64, capacity float64) float64 {
	if capacity <= 0 {
		return 0
	}
	return float64(sent) / capacity
}

// begin is the beginning of the measured interval.
func (m *meter) begin() {
	m.startUtilisation, m.startP99 = share(m.sent, m.capacity), m.tracer.Delay.Quantile(.99)
	m.fromSent, m.fromCapacity = m.sent, m.capacity
	m.tracer.Delay.Reset()
}

// end is its end.
func (m *meter) end() {
	m.utilisation = share(m.sent-m.fromSent, m.capacity-m.fromCapacity)
	m.queueP50, m.queueP99 = m.tracer.Delay.Quantile(.5), m.tracer.Delay.Quantile(.99)
}

// startValues are the figures of the time before measuring began.
func (m *meter) startValues(to map[string]float64) {
	to["start-utilisation"], to["start-queue-p99"] = m.startUtilisation, float64(m.startP99)
}

func (m *meter) values(to map[string]float64) {
	to["utilisation"] = m.utilisation
	to["queue-p50"], to["queue-p99"] = float64(m.queueP50), float64(m.queueP99)
}
