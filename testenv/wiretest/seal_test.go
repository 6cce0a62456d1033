// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"encoding/binary"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// opened adds what the ends of a world have counted.
func opened(w *World) (c seal.Counters, epochs uint32) {
	for _, pair := range w.Pairs {
		for _, e := range pair {
			n := e.Keys.Opener.Counters()
			c.Opened += n.Opened
			c.Replay += n.Replay
			c.Old += n.Old
			c.Epoch += n.Epoch
			c.Forged += n.Forged
			c.Short += n.Short
			epochs += e.Keys.Opener.Epoch()
		}
	}
	return c, epochs
}

// Encrypted queue pairs do what plain ones do on a wire that loses, doubles, delays and damages
// packets, with go-back-N and with SACK, and over many epochs. Packets that the wire doubles are
// refused, packets that the requester repeats are not.
func TestEncryptedQueuePairs(t *testing.T) {
	for _, l := range []Limits{
		{Type: verbs.RC, Pairs: 2, Ops: 40, Exact: true, MaxLen: 16384, Faults: 50},
		{Type: verbs.UC, Pairs: 2, Ops: 40, Exact: true, MaxLen: 16384, Faults: 50},
	} {
		var total seal.Counters
		var epochs uint32
		again, selective := uint64(0), 0
		for seed := range uint64(60) {
			s := Draw(Seeded(seed), l)
			s.Encrypt = &seal.Limits{MaxBlocks: 4096, Overlap: int64(100 * Millisecond)}
			w := Build(s)
			if err := w.Finish(); err != nil {
				t.Fatalf("seed %d: %v\n%v", seed, err, s)
			}
			c, e := opened(w)
			if c.Forged+c.Short+c.Old != 0 { // ErrEpoch: late behind two of these short epochs
				t.Errorf("seed %d: %+v", seed, c)
			}
			for _, n := range w.Nodes {
				again += n.Count.SentAgain
			}
			if s.Selective {
				selective++
			}
			total.Opened += c.Opened
			total.Replay += c.Replay
			epochs += e
		}
		t.Logf("%v: %+v, %d epochs, %d packets sent again, SACK in %d of 60 runs", l.Type, total, epochs, again, selective)
		if total.Replay == 0 || epochs < 60 {
			t.Errorf("%v: %d replays, %d epochs: the test tests nothing", l.Type, total.Replay, epochs)
		}
		if l.Type == verbs.RC && (again == 0 || selective == 0 || selective == 60) {
			t.Errorf("%d packets sent again, SACK in %d of 60 runs: the test tests nothing", again, selective)
		}
	}
}

// plaintextInCapture runs w and returns how many runs of eight bytes of its memory are in a capture
// of both directions.
func plaintextInCapture(t *testing.T, w *World) (found int) {
	t.Helper()
	captured := map[uint64]bool{}
	for i, n := range w.Nodes {
		n.PathTo(w.Nodes[1-i]).Tap = func(p *rocev2.Packet) {
			for b := p.Datagram(); len(b) >= 8; b = b[1:] {
				captured[binary.BigEndian.Uint64(b)] = true
			}
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	for _, e := range w.Pairs[0] {
		for _, memory := range [][]byte{e.pool.Data, e.target.Data} {
			for b := memory; len(b) >= 8; b = b[8:] {
				if captured[binary.BigEndian.Uint64(b)] {
					found++
				}
			}
		}
	}
	return found
}

// A capture of encrypted packets has no eight bytes in a row of the data that they carry.
func TestCaptureShowsNoPlaintext(t *testing.T) {
	for _, kind := range []verbs.Op{verbs.OpWrite, verbs.OpRead, verbs.OpSend} {
		stream := Stream{Kind: kind, Messages: 20, Len: 10000, PMTU: rocev2.PMTU1024, Queue: 16, Timeout: 14, RetryCnt: 7}
		if n := plaintextInCapture(t, stream.Build(1)); n < 1000 {
			t.Errorf("%v without encryption: %d runs found, so the search finds too little", kind, n)
		}
		w := stream.build(func(s *Scenario) { s.Seed, s.Encrypt = 1, &seal.Limits{} })
		if n := plaintextInCapture(t, w); n != 0 {
			t.Errorf("%v: %d runs of plaintext", kind, n)
		}
	}
}
