// SPDX-License-Identifier: Apache-2.0

package ooo

// A rail is one interface of a host that has several, each with an address, a rate and a pacer of its
// own. A queue pair has its paths in turn on its rails: path i is on rail i modulo Config.Rails. The
// engine asks for the packets of one rail at a time (NextDataOn), as that rail may send. So the rates of
// the rails divide the data, and the window of each path limits what waits on its rail.
//
// A response leaves on the rail of its packet. A retransmission leaves on a rail that has a good path.
//
// If no path of a rail has answered since its latest loss, and other rails have good paths, the rail
// carries one packet at a time as a trial. Between two trials there is a pause, which doubles with each
// packet that is lost, up to 16 RTOs that are not doubled. The first answer ends that.

const maxTrialShift = 4

// railState is what the paths of one rail share.
type railState struct {
	idle fifo[pathRef] // answered without queueing

	burst     pathRef // path of the latest new packet
	burstAt   Time    // send time of the first of the packets that follow each other on the path
	burstLeft int     // packets that may follow at that moment

	trials  uint8 // trials that were lost in a row, at most maxTrialShift; 0: the rail is in use
	since   Time  // time at which the latest trial was found lost
	pause   Time  // pause between two trials
	trialAt Time  // earliest time of the next trial
}

// goodOn reports whether a path of the rail is good.
func (s *paths) goodOn(rail int) bool {
	for i := rail; i < len(s.list); i += len(s.rails) {
		if s.list[i].good() {
			return true
		}
	}
	return false
}

// mayRepeat reports whether retransmissions may leave on the rail.
func (s *paths) mayRepeat(rail int) bool { return s.goodOn(rail) || !s.anyGood() }

// resting reports that the rail carries no new packet now.
func (s *paths) resting(now Time, rail int) bool {
	r := &s.rails[rail]
	return r.trials > 0 && now < r.trialAt && s.anyGood()
}

// tried notes that the rail carries a new packet: if that is a trial, the next one is after the pause.
func (s *paths) tried(now Time, rail int) {
	if r := &s.rails[rail]; r.trials > 0 {
		r.trialAt = now + r.pause
	}
}

// railLost notes that a packet which was sent then on a path of a rail was lost without an answer after
// it. timeout is the RTO, not doubled.
func (s *paths) railLost(now, sent Time, rail int, timeout Time) {
	r := &s.rails[rail]
	if len(s.rails) == 1 || s.goodOn(rail) || r.trials > 0 && sent < r.since {
		return
	}
	r.trials = min(r.trials+1, maxTrialShift)
	r.pause = timeout << r.trials
	r.since, r.trialAt = now, now+r.pause
}
