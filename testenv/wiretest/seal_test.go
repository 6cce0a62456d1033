// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"encoding/binary"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// sealed encrypts all queue pairs of a world, each direction with its own key.
type sealed struct {
	sealers [2]map[uint32]*seal.Sealer // sealers by queue pair of the sender
	openers [2]map[uint32]*seal.Opener // openers by queue pair of the receiver
}

func encrypt(t *testing.T, w *World, l seal.Limits) *sealed {
	t.Helper()
	s := &sealed{}
	for side := range w.Nodes {
		s.sealers[side], s.openers[side] = map[uint32]*seal.Sealer{}, map[uint32]*seal.Opener{}
	}
	for i, pair := range w.Pairs {
		for side := range pair {
			secret := seal.Secret{byte(i), byte(side)}
			a, err := seal.NewSealer(seal.AES128GCM, secret, l)
			if err != nil {
				t.Fatal(err)
			}
			b, err := seal.NewOpener(seal.AES128GCM, secret, l)
			if err != nil {
				t.Fatal(err)
			}
			s.sealers[side][pair[side].QP.QPN()] = a
			s.openers[1-side][pair[1-side].QP.QPN()] = b
		}
	}
	for side, n := range w.Nodes {
		n.Build = func(qpn uint32, o *qp.Outbound, b []byte) ([]byte, error) {
			d := o.Datagram
			d.Sealed = true
			b = b[:d.Len(len(d.Payload)+seal.Overhead)]
			place, err := d.Begin(b, len(d.Payload)+seal.Overhead)
			if err != nil {
				return nil, err
			}
			copy(seal.Plain(place), d.Payload)
			if err := s.sealers[side][qpn].SealDatagram(b); err != nil {
				return nil, err
			}
			return b[:d.Seal(b)], nil
		}
		n.Check = func(p *rocev2.Packet) error {
			return s.openers[side][p.BTH().DestQP()].OpenPacket(int64(w.Now()), p)
		}
	}
	return s
}

// count adds what the openers have counted.
func (s *sealed) count() (c seal.Counters, epochs uint32) {
	for side := range s.openers {
		for _, o := range s.openers[side] {
			n := o.Counters()
			c.Opened += n.Opened
			c.Replay += n.Replay
			c.Old += n.Old
			c.Epoch += n.Epoch
			c.Forged += n.Forged
			c.Short += n.Short
			epochs += o.Epoch()
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
			w := Build(s)
			crypt := encrypt(t, w, seal.Limits{MaxBlocks: 4096, Overlap: int64(100 * Millisecond)})
			if err := w.Finish(); err != nil {
				t.Fatalf("seed %d: %v\n%v", seed, err, s)
			}
			c, e := crypt.count()
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
		w := stream.Build(1)
		encrypt(t, w, seal.Limits{})
		if n := plaintextInCapture(t, w); n != 0 {
			t.Errorf("%v: %d runs of plaintext", kind, n)
		}
	}
}
