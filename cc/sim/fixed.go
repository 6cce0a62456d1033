// SPDX-License-Identifier: Apache-2.0

package sim

// Fixed is the scheme that controls nothing: every pacer has the same rate and
// window. With neither, hosts send as fast as their links.
type Fixed struct {
	RateBps     uint64
	WindowBytes int64
	// BDP makes the window the bandwidth-delay product of each path.
	BDP bool
	// Want is what Needs returns.
	Want Needs
}

// Name says what is fixed.
func (s *Fixed) Name() string {
	switch {
	case s.BDP:
		return "window-bdp"
	case s.WindowBytes > 0:
		return "fixed-window"
	case s.RateBps > 0:
		return "fixed-rate"
	}
	return "none"
}

// Needs returns Want.
func (s *Fixed) Needs() Needs { return s.Want }

// NewControl sets the rate and the window.
func (s *Fixed) NewControl(_ int64, p *Pacer) Control {
	p.RateBps, p.WindowBytes = s.RateBps, s.WindowBytes
	if s.BDP {
		p.WindowBytes = max(p.Path.BDPBytes(), int64(p.Path.PayloadBytes))
	}
	return NoControl{}
}

// NewReceiver returns nil.
func (s *Fixed) NewReceiver(int, Out) Receiver { return nil }
