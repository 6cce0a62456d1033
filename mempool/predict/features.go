// SPDX-License-Identifier: Apache-2.0

package predict

import "math"

// window is the number of periods that the features look back.
const window = 288

// lags, highs and lows are the distances in periods, and lengths of windows in periods, of the features.
var (
	lags  = [...]int{1, 2, 3, 4, 6, 8, 12, 18, 24}
	highs = [...]int{3, 6, 12, 24, 48, 96, 288}
	lows  = [...]int{6, 12, 24, 48}
)

// Inputs is the number of inputs of a network: the history of a node without units, what the simple
// predictors say and how well they did, and the quantile.
const Inputs = len(lags) + len(highs) + len(lows) + len(riseQuantiles) + 2*experts + 16

// spreadFloor is the least spread, as a part of the level: a demand that has never changed may change.
const spreadFloor = 1e-3

// maxInput bounds every input of a network, and its output.
const maxInput = 12

// History has the needs and the utilisation of one node in the last periods, smooth statistics of
// them, and the simple predictors. All its values are in pages but for utilisation (0 to 1).
// It allocates nothing after it is made. It is not safe for concurrent use.
type History struct {
	s     historyState
	rises rises
}

// historyState is what a History stores.
type historyState struct {
	Need, Use [window]float64 // rings; At is the place of the newest
	At        int
	Count     uint64 // number of samples

	Slow, Fast    smooth // changes per period, without sign
	Level, Recent smooth // mean needs: of a long time, of a short time
	Rises         smooth // rises per period
	Squares       smooth // changes per period, squared
	UseMean       smooth
	Above         smooth // need above the newest need at the decision, mean over the horizon

	Last     ewma
	EWMA     ewma
	Holt     holt
	Maximum  windowMax
	Linear   linear
	Errors   [experts]smooth    // mean absolute error over the horizon
	Centres  [][experts]float64 // ring of the last horizon predictions
	CentreAt int
}

// experts is the number of simple predictors.
const (
	experts       = 5
	maximumWindow = 6 // periods of the window maximum
)

// NewHistory returns an empty history for decisions that hold for horizon periods.
func NewHistory(horizon int) *History {
	return &History{rises: newRises(horizon), s: historyState{
		Last:    ewma{name: "last", alpha: 1},
		EWMA:    ewma{name: "ewma", alpha: 0.5},
		Holt:    *newHolt(0.8, 0.1, horizon),
		Maximum: *newWindowMax(maximumWindow),
		Linear:  *newLinear(horizon),
		Centres: make([][experts]float64, horizon),
	}}
}

// expert is a simple predictor by its index.
func (h *History) expert(i int) Simple {
	switch i {
	case 0:
		return &h.s.Last
	case 1:
		return &h.s.EWMA
	case 2:
		return &h.s.Holt
	case 3:
		return &h.s.Maximum
	default:
		return &h.s.Linear
	}
}

// smooth is an exponentially weighted mean without bias to its start.
type smooth struct {
	Sum    float64
	Weight float64
}

func (s *smooth) add(v, alpha float64) {
	s.Sum += alpha * (v - s.Sum)
	s.Weight += alpha * (1 - s.Weight)
}

func (s *smooth) value() float64 {
	if s.Weight == 0 {
		return 0
	}
	return s.Sum / s.Weight
}

// Observe adds a period: the need in pages and the utilisation, 0 to 1.
func (h *History) Observe(need, use float64) {
	s := &h.s
	if s.Count > 0 {
		change := need - s.Need[s.At]
		size := math.Abs(change)
		s.Slow.add(size, 0.05)
		s.Fast.add(size, 0.3)
		s.Rises.add(max(change, 0), 0.05)
		s.Squares.add(change*change, 0.05)
	}
	s.Level.add(need, 0.1)
	s.Recent.add(need, 0.3)
	s.UseMean.add(use, 0.1)
	s.At = (s.At + 1) % window
	s.Need[s.At], s.Use[s.At] = need, use
	s.Count++
	h.rises.add(h)
	h.observeExperts(need)
}

// observeExperts measures the predictions made a horizon ago, and makes new ones.
func (h *History) observeExperts(need float64) {
	s := &h.s
	horizon := len(s.Centres)
	past := &s.Centres[s.CentreAt]
	if s.Count > uint64(horizon) {
		base, above := h.back(&s.Need, horizon), 0.0
		var miss [experts]float64
		for age := range horizon {
			v := h.back(&s.Need, age)
			above += max(0, v-base) / float64(horizon)
			for i := range miss {
				miss[i] += math.Abs(v-past[i]) / float64(horizon)
			}
		}
		s.Above.add(above, 0.05)
		for i := range miss {
			s.Errors[i].add(miss[i], 0.05)
		}
	}
	for i := range past {
		e := h.expert(i)
		e.Observe(need)
		past[i] = e.Predict()
	}
	s.CentreAt = (s.CentreAt + 1) % horizon
}

// centre is the newest prediction of a simple predictor.
func (h *History) centre(expert int) float64 {
	n := len(h.s.Centres)
	return h.s.Centres[(h.s.CentreAt+n-1)%n][expert]
}

// Last is the need of the newest period.
func (h *History) Last() float64 { return h.s.Need[h.s.At] }

// Spread is the scale of a node: the mean change of its need per period, and at least a thousandth of
// its need.
func (h *History) Spread() float64 {
	return (h.s.Slow.value()+h.s.Fast.value())/2 + spreadFloor*h.s.Level.value() + 1e-9
}

// back is the value some periods ago; before the first sample it is that of the first.
func (h *History) back(ring *[window]float64, periods int) float64 {
	if h.s.Count == 0 {
		return 0
	}
	periods = min(periods, window-1)
	if uint64(periods) >= h.s.Count {
		periods = int(h.s.Count) - 1
	}
	return ring[(h.s.At-periods+window)%window]
}

// Fill writes the inputs of a network for the quantile tau into to, which has Inputs places.
// Differences to the newest need are in units of Spread; asinh makes them logarithmic where they are large.
func (h *History) Fill(to []float64, tau float64) {
	s, x, spread := &h.s, h.Last(), h.Spread()
	w := inputWriter{to: to}
	scaled := func(v float64) { w.put(math.Asinh((v - x) / spread)) }
	ratio := func(v, unit float64) { w.put(math.Log((v + unit/10) / unit)) }
	for _, lag := range lags {
		scaled(h.back(&s.Need, lag))
	}
	h.extremes(&w, x, spread)
	for _, q := range riseQuantiles {
		w.put(math.Asinh(h.rises.quantile(q) / spread))
	}
	scaled(s.Level.value())
	scaled(s.Recent.value())
	level := s.Level.value() + 1e-9
	w.put(math.Log(spread/level) / 3)
	w.put(math.Log((s.Fast.value() + spreadFloor*level) / (s.Slow.value() + spreadFloor*level)))
	ratio(s.Rises.value(), spread)
	ratio(s.Above.value(), spread)
	ratio(math.Sqrt(s.Squares.value()), spread)
	use := h.back(&s.Use, 0)
	w.put(2*use - 1)
	w.put(5 * (use - s.UseMean.value()))
	for _, lag := range [...]int{1, 3, 12} {
		w.put(5 * (use - h.back(&s.Use, lag)))
	}
	w.put(math.Log1p(float64(s.Count)) / 4)
	w.put(math.Log2(float64(len(s.Centres))) / 2)
	for i := range experts {
		scaled(h.centre(i))
		ratio(s.Errors[i].value(), spread)
	}
	SetTau(to, tau)
}

// SetTau changes the quantile of inputs that Fill wrote.
func SetTau(to []float64, tau float64) {
	to[Inputs-2] = logit(tau)
	to[Inputs-1] = tau
}

// inputWriter writes inputs one after the other, within their bounds.
type inputWriter struct {
	to []float64
	n  int
}

func (w *inputWriter) put(v float64) {
	w.to[w.n] = bounded(v)
	w.n++
}

// bounded limits an input or an output of a network; what is no number is 0.
func bounded(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return max(-maxInput, min(v, maxInput))
}

// extremes writes the maxima and minima of the last periods.
func (h *History) extremes(w *inputWriter, x, spread float64) {
	age, high := 0, x
	for _, end := range highs {
		for ; age < end; age++ {
			high = max(high, h.back(&h.s.Need, age))
		}
		w.put(math.Asinh((high - x) / spread))
	}
	age = 0
	low := x
	for _, end := range lows {
		for ; age < end; age++ {
			low = min(low, h.back(&h.s.Need, age))
		}
		w.put(math.Asinh((low - x) / spread))
	}
}

// Allocation turns the output of a network into pages: the newest need plus a number of spreads, which
// grows exponentially where the output is large. It is at least 0.
func (h *History) Allocation(output float64) float64 {
	pages, _ := allocation(h.Last(), h.Spread(), output)
	return pages
}

// allocation is Allocation and its derivative with respect to the output.
func allocation(last, spread, output float64) (pages, slope float64) {
	output = bounded(output)
	return max(0, last+spread*math.Sinh(output)), spread * math.Cosh(output)
}
