// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// All packets that were captured over several epochs are refused and counted when they come again, each at its own end,
// and at the other one with the number of that queue pair.
func TestReplayAcrossEpochsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecret(t, verbs.RC, 0, seal.Limits{MaxBlocks: seal.MinBlocks})
		for range 40 { // 64 KB for each epoch
			s.send(verbs.OpWrite, 10*1024)
			s.finish(1)
		}
		epochs := map[uint32]bool{}
		for n := range s.packets() {
			epochs[n.epoch] = true
		}
		if len(epochs) < 4 {
			t.Fatalf("%d epochs", len(epochs))
		}
		s.fill(1) // a packet that is accepted would write the old data
		var sum CryptCounters
		for i, frame := range slices.Clone(s.captured) {
			c, changed := s.deliverAgain(frame)
			if changed || c.Opened != 0 || c.replay+c.old+c.epoch != 1 {
				t.Fatalf("packet %d: memory changed %v, %+v", i, changed, c)
			}
			sum.replay += c.replay
			sum.epoch += c.epoch
			if c, changed := s.deliverAgain(s.reflected(frame)); changed || c.Opened != 0 || c.forged+c.replay+c.old+c.epoch != 1 {
				t.Fatalf("packet %d, reflected: memory changed %v, %+v", i, changed, c)
			}
		}
		if sum.replay == 0 || sum.epoch == 0 {
			t.Errorf("%d replays, %d packets of old epochs: both occur", sum.replay, sum.epoch)
		}
	})
}

// reflected is a frame that goes to the other one of both queue pairs.
func (s *secret) reflected(frame []byte) []byte {
	b := slices.Clone(frame)
	p, err := rocev2.ParseFrame(b)
	if err != nil {
		s.t.Fatal(err)
	}
	to := s.x.num
	if p.BTH().DestQP() == to {
		to = s.y.num
	}
	at := bytes.Index(b, p.Body()) + 5 // DestQP of the BTH, 24 bits
	b[at], b[at+1], b[at+2] = byte(to>>16), byte(to>>8), byte(to)
	if q, err := rocev2.ParseFrame(b); err != nil || q.BTH().DestQP() != to {
		s.t.Fatalf("%v: the place of the number", err)
	}
	return b
}
