// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

// FuzzOpen: no bytes make an Opener panic, none but those of its Sealer are opened, and each
// refused packet is counted once.
func FuzzOpen(f *testing.F) {
	sealer, _ := pair(f, AES128GCM, Limits{})
	for _, op := range []rocev2.Opcode{rocev2.RCWriteOnly, rocev2.RCAck, rocev2.RCSendMiddle} {
		p, err := rocev2.ParseIP(build(f, sealer, rocev2.Datagram{Opcode: op, DestQP: 2}, nil))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p.Body(), uint8(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, at uint8) {
		s, o := pair(t, AES128GCM, Limits{})
		if _, err := o.Open(0, bytes.Clone(b)); err == nil {
			// The seeds were sealed under this key.
			if n, herr := headers(b); herr != nil || len(b) != n+Overhead {
				t.Fatalf("opened %x", b)
			}
		} else if c := o.Counters(); c.Refused() != 1 {
			t.Fatalf("%v: counters %+v", err, c)
		}
		body := append(bytes.Clone(b), make([]byte, Overhead)...)
		n := len(body)
		if s.Seal(body) != nil {
			return
		}
		_, fresh := pair(t, AES128GCM, Limits{})
		head, _ := headers(body)
		want := b[min(head+HeadLen, len(b)):]
		if len(want) > n-head-Overhead {
			want = want[:n-head-Overhead]
		}
		bad := bytes.Clone(body)
		if bad[int(at)%n] ^= 1; int(at)%n != maskedByte {
			if _, err := fresh.Open(0, bad); err == nil {
				t.Fatalf("byte %d changed: opened", int(at)%n)
			}
		}
		got, err := fresh.Open(0, body)
		if err != nil || len(got) != n-head-Overhead || !bytes.Equal(got[:len(want)], want) {
			t.Fatalf("%x: %v, %x", b, err, got)
		}
	})
}

// FuzzHandshake: no bytes make a responder or an initiator panic or accept them.
func FuzzHandshake(f *testing.F) {
	from, to := identity(f), identity(f)
	a, err := Initiate(0, Config{Identity: from, Peer: to.Public()}, binding)
	if err != nil {
		f.Fatal(err)
	}
	c := Config{Identity: to, Peers: []PublicKey{from.Public()}}
	b, err := Respond(0, c, binding, atB, a.Message())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a.Message())
	f.Add(b.Message())
	f.Fuzz(func(t *testing.T, msg []byte) {
		if _, err := Respond(0, c, binding, atB, msg); err == nil && !bytes.Equal(msg, a.Message()) {
			t.Fatalf("offer %x accepted", msg)
		}
		h, err := Initiate(0, a.config, binding)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Answer(0, atB, msg); err == nil {
			t.Fatalf("answer %x accepted", msg)
		}
	})
}
