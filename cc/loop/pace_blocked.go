// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// Destinations are evaluated when they have traffic. If all packets that a sender may have
// outstanding wait in the pacer, there is no traffic until the next one leaves: 90 ms for a
// kilobyte at 100 kbit/s. A sender of 64 packets that continues when half of them have left
// would not get a new rate for seconds. Destinations with packets in the pacer are therefore
// evaluated too, without a sample.
type paceBlocked struct {
	all  map[bpf.DestKey]blockedDest
	keys []bpf.DestKey
}

// blockedDest is a destination with packets in the pacer; times are monotonic ns.
type blockedDest struct {
	empty uint64 // time at which the pacer is empty
	seen  uint64 // time of the last evaluation
}

// shortWait is the longest wait that is ignored: the packets have left by the next tick.
const shortWait = uint64(2 * idleTick)

// note records the time at which the pacer's model of a destination is empty. It reports
// whether packets wait for longer than shortWait.
func (p *paceBlocked) note(key bpf.DestKey, empty, now uint64) (waits bool) {
	if waits = empty > now+shortWait && empty < now+uint64(time.Minute); !waits {
		delete(p.all, key)
		return false
	}
	if p.all == nil {
		p.all = map[bpf.DestKey]blockedDest{}
	}
	p.all[key] = blockedDest{empty, now}
	return true
}

// drop removes a destination whose entry was deleted.
func (p *paceBlocked) drop(key bpf.DestKey) { delete(p.all, key) }

// due returns the destinations that the tick which began at now has not evaluated yet.
func (p *paceBlocked) due(now uint64) []bpf.DestKey {
	p.keys = p.keys[:0]
	for key, x := range p.all {
		switch {
		case x.seen == now:
		case x.empty <= now:
			delete(p.all, key)
		default:
			p.keys = append(p.keys, key)
		}
	}
	return p.keys
}

// evaluatePaceBlocked evaluates the destinations with packets in the pacer that had no traffic
// in the tick that began at now. It returns their number.
func (l *Loop) evaluatePaceBlocked(now uint64) (total int, err error) {
	p := &l.paceBlocked
	params := *bpf.ParamsAs[fourcase.Params](&l.cfg.Policy)
	slots := l.table.Slots()
	for keys := p.due(now); len(keys) > 0; {
		n := min(len(keys), len(slots))
		for i, key := range keys[:n] {
			slots[i].Key = key
		}
		keys = keys[n:]
		if err := l.table.Read(n); err != nil {
			return total, err
		}
		if l.evaluateSlots(slots[:n], &params, false, now, l.clock()) {
			if err := l.table.Apply(n); err != nil {
				return total, err
			}
		}
		total += n
	}
	return total, nil
}
