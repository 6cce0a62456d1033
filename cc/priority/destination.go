// SPDX-License-Identifier: Apache-2.0

package priority

import "time"

// Observation is what an evaluation observed of a destination and decided for it.
type Observation struct {
	Bytes  uint64 // bytes of layer 2 that were sent to it, ever
	Paced  bool   // packets waited for the rate since the last evaluation
	Queued bool   // packets wait in the network, or were lost or marked

	RateBps    uint64 // rate of the destination
	AllowedBps uint64 // rate that congestion control allows
	LimitBps   uint64 // limit that the destination has named (RATE_LIMIT), 0 = none
	MinBps     uint64 // the least that any destination gets, if possible

	DecidedNs   uint64 // last decision of congestion control with feedback
	DecreasedNs uint64 // last decrease of the rate by congestion control
}

// Destination has the state of one destination with traffic.
type Destination struct {
	key          Key
	node         *node
	demand       uint64 // demand at the last call of Share
	limit, floor uint64 // limits of the last call of Share; limit 0 = there was none
	most         uint64 // largest rate that the destination takes
	rate         uint64 // rate of the destination
	allowed      uint64 // rate that congestion control allows
	observedNs   uint64
	pacedNs      uint64 // last time that packets waited for the rate, 0 = never
	queued       bool
	decidedNs    uint64
	decreasedNs  uint64
	usage        usage
}

const (
	// idleNs is how long a destination without traffic keeps its share.
	idleNs = uint64(500 * time.Millisecond)
	// pacedForNs: a destination whose packets waited for the rate within this time is
	// assumed to want more.
	pacedForNs = uint64(100 * time.Millisecond)
)

// Bounds returns the most that maximum and priority of its node give a destination, and the
// minimum that it has, 0 = none.
func (d *Destination) Bounds() (most, floor uint64) {
	if d.limit == 0 {
		return d.node.max, 0
	}
	return min(d.node.max, d.limit), d.floor
}

// wantsMore reports whether the rate limits what is sent.
func (d *Destination) wantsMore(now uint64) bool { return d.pacedNs != 0 && now-d.pacedNs < pacedForNs }

// estimateDemand returns what the destination could use until the next call of Share: a
// quarter more than congestion control allows, or than was sent if that was enough. The
// quarter keeps free what a destination may have but cannot use yet, because its rate
// grows in steps. A destination cannot use more than it takes.
func (d *Destination) estimateDemand(now uint64) uint64 {
	use := d.usage.bps
	if d.wantsMore(now) {
		use = d.allowed
	}
	return min(use+use/4, d.most)
}

// addCongestionSigns adds the destination's signs of congestion. changedNs is when the capacity last
// changed.
func (d *Destination) addCongestionSigns(s *CongestionSigns, changedNs, now uint64) {
	if d.wantsMore(now) || !d.usage.measured {
		s.UsedBps += d.rate
	} else {
		s.UsedBps += min(d.usage.bps, d.rate)
	}
	if d.decidedNs == 0 || now-d.decidedNs > Recent {
		return
	}
	s.Active++
	if d.queued {
		s.Waiting++
	}
	if d.decreasedNs > changedNs {
		s.Decreased++
	}
}

// usage measures the rate at which bytes are sent.
type usage struct {
	bytes, at uint64
	bps       uint64
	measured  bool // bps has a value: not in the first usagePeriod
}

const usagePeriod = uint64(50 * time.Millisecond)

func (u *usage) update(bytes, now uint64) {
	took := now - u.at
	switch {
	case u.at == 0 || bytes < u.bytes || took > uint64(time.Second):
		u.bytes, u.at = bytes, now
	case took >= usagePeriod:
		u.bps = uint64(float64(bytes-u.bytes) * 8e9 / float64(took))
		u.bytes, u.at, u.measured = bytes, now, true
	}
}
