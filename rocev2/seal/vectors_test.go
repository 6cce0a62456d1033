// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

type hexBytes []byte

func (h *hexBytes) UnmarshalText(b []byte) (err error) {
	*h, err = hex.DecodeString(string(b))
	return err
}

// vectors is testdata/vectors.json, which vectors.py has computed with other libraries.
type vectors struct {
	Handshakes []struct {
		Suite                Suite
		Initiator, Responder hexBytes
		SeedI                hexBytes `json:"seed_i"`
		SeedR                hexBytes `json:"seed_r"`
		QPN                  uint32
		CommID               uint32 `json:"comm_id"`
		TheirQPN             uint32 `json:"their_qpn"`
		TheirPSN             uint32 `json:"their_psn"`
		Service              uint64
		Offer, Answer        hexBytes
		Forward, Reverse     hexBytes
	}
	Packets []struct {
		Suite         Suite
		Secret        hexBytes
		Epoch         uint32
		Counter       uint64
		Opcode        rocev2.Opcode
		Plain, Packet hexBytes
	}
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	b, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPacketVectors(t *testing.T) {
	v := readVectors(t)
	if len(v.Packets) != 18 {
		t.Fatalf("%d packets", len(v.Packets))
	}
	for i, k := range v.Packets {
		s, err := NewSealer(k.Suite, Secret(k.Secret), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		o, err := NewOpener(k.Suite, Secret(k.Secret), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for range k.Epoch {
			if err := s.Rekey(); err != nil {
				t.Fatal(err)
			}
			if err := o.advance(0); err != nil {
				t.Fatal(err)
			}
		}
		s.counter = k.Counter - 1
		d := rocev2.Datagram{
			Src: hostA, Dst: hostB, TOS: 2, IPID: 7, SrcPort: 0xC123, Opcode: k.Opcode, DestQP: 0x800002, PSN: 0x1234,
			AckReq: true, VA: 0x1122334455667788, RKey: 0xAABBCCDD, DMALen: 37, Syndrome: 0x1F, MSN: 5,
		}
		if got := build(t, s, d, k.Plain); !bytes.Equal(got, k.Packet) {
			t.Errorf("packet %d:\n got %x\nwant %x", i, got, []byte(k.Packet))
		}
		if got, err := open(o, 0, k.Packet); err != nil || !bytes.Equal(got, k.Plain) {
			t.Errorf("packet %d: open: %v, %x", i, err, got)
		}
	}
}

func TestHandshakeVectors(t *testing.T) {
	v := readVectors(t)
	if len(v.Handshakes) != 2 {
		t.Fatalf("%d handshakes", len(v.Handshakes))
	}
	for _, k := range v.Handshakes {
		from, err := IdentityOf(k.Initiator)
		if err != nil {
			t.Fatal(err)
		}
		to, err := IdentityOf(k.Responder)
		if err != nil {
			t.Fatal(err)
		}
		b := Binding{Initiator: hostA, Responder: hostB, QPN: k.QPN, CommID: k.CommID, Service: k.Service}
		at := Accepted{k.TheirQPN, k.TheirPSN}
		h, err := Initiate(0, Config{Identity: from, Peer: to.Public(), Suite: k.Suite, seed: (*[32]byte)(k.SeedI)}, b)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(h.Message(), k.Offer) {
			t.Errorf("offer\n got %x\nwant %x", h.Message(), []byte(k.Offer))
		}
		r, err := Respond(0, Config{Identity: to, Peers: []PublicKey{from.Public()}, seed: (*[32]byte)(k.SeedR)}, b, at, k.Offer)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(r.Message(), k.Answer) {
			t.Errorf("answer\n got %x\nwant %x", r.Message(), []byte(k.Answer))
		}
		if err := h.Answer(0, at, k.Answer); err != nil {
			t.Fatal(err)
		}
		want := Keys{k.Suite, Secret(k.Forward), Secret(k.Reverse)}
		if h.keys != want || r.keys != (Keys{k.Suite, want.Receive, want.Send}) {
			t.Errorf("%v: keys differ", k.Suite)
		}
	}
}
