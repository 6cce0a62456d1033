// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"pgregory.net/rapid"
)

// Random sizes, limits, losses and reordering: no nonce is used twice under a key, no key
// encrypts more than its limit, every packet that is not too late is opened once.
func TestRekeyProperty(t *testing.T) {
	type flight struct {
		body  []byte
		plain []byte
	}
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{Overlap: 1000}
		secret := Secret{byte(rapid.IntRange(0, 255).Draw(t, "secret"))}
		s, err := NewSealer(AES128GCM, secret, limits)
		if err != nil {
			t.Fatal(err)
		}
		o, err := NewOpener(AES128GCM, secret, limits)
		if err != nil {
			t.Fatal(err)
		}
		limits.MaxBlocks = rapid.Uint64Range(1, 60).Draw(t, "blocks") // fewer than an application may choose
		s.limits = limits
		used := map[[HeadLen]byte]bool{}
		perEpoch := map[uint32]uint64{}
		var last uint32
		var held []flight
		now := int64(0)
		arrive := func(f flight) {
			epoch := binary.BigEndian.Uint32(f.body[rocev2.BTHLen:])
			known := epoch+1 >= o.Epoch() && epoch <= o.Epoch()+1
			if epoch+1 == o.Epoch() && now >= o.oldUntil {
				known = false
			}
			got, err := o.Open(now, bytes.Clone(f.body))
			if known != (err == nil) || !known && err != ErrEpoch {
				t.Fatalf("epoch %d at a receiver in epoch %d: %v", epoch, o.Epoch(), err)
			}
			if err != nil {
				return
			}
			if !bytes.Equal(got, f.plain) {
				t.Fatal("other data")
			}
			if _, err := o.Open(now, bytes.Clone(f.body)); err != ErrReplay {
				t.Fatalf("the same packet again: %v", err)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "packets") {
			now += rapid.Int64Range(0, 300).Draw(t, "time")
			plain := random(rapid.IntRange(0, 300).Draw(t, "size"))
			body := make([]byte, rocev2.BTHLen+len(plain)+Overhead)
			body[0] = byte(rocev2.RCSendOnly)
			copy(body[rocev2.BTHLen+HeadLen:], plain)
			if err := s.Seal(body); err != nil {
				t.Fatal(err)
			}
			head := [HeadLen]byte(body[rocev2.BTHLen:])
			if used[head] {
				t.Fatalf("epoch and counter %x used twice", head)
			}
			used[head] = true
			epoch := s.Epoch()
			if epoch < last || epoch > last+1 {
				t.Fatalf("epoch %d after %d", epoch, last)
			}
			last = epoch
			need := blocks(len(plain))
			if perEpoch[epoch] += need; perEpoch[epoch] > limits.MaxBlocks && perEpoch[epoch] != need {
				t.Fatalf("epoch %d: %d blocks, limit %d", epoch, perEpoch[epoch], limits.MaxBlocks)
			}
			f := flight{body, plain}
			// What is late is so by few packets: one of each epoch arrives in time.
			if rapid.IntRange(0, 2).Draw(t, "late") == 0 && epoch == o.Epoch() {
				held = append(held, f)
				continue
			}
			arrive(f)
			if rapid.Bool().Draw(t, "release") {
				for _, f := range held {
					arrive(f)
				}
				held = held[:0]
			}
		}
	})
}

// A peer with the keys that goes on to the next epoch with each packet is refused when it has used up the keys
// that it may have in advance. Data earns it more of them, and the refused packet is taken when it comes again.
func TestKeysCostData(t *testing.T) {
	s, o := pair(t, AES128GCM, Limits{})
	small := rocev2.Datagram{Opcode: rocev2.RCAck, DestQP: 2}
	next := func() []byte {
		if err := s.Rekey(); err != nil {
			t.Fatal(err)
		}
		return build(t, s, small, nil)
	}
	for i := range keysAhead {
		if _, err := open(o, 0, next()); err != nil {
			t.Fatalf("epoch %d: %v", i+1, err)
		}
	}
	data := build(t, s, rocev2.Datagram{Opcode: rocev2.RCWriteMiddle, DestQP: 2}, random(4096))
	early := next()
	if _, err := open(o, 0, early); err != ErrEpoch || o.Epoch() != keysAhead {
		t.Errorf("one epoch more without data: %v, in epoch %d", err, o.Epoch())
	}
	// The sender is still in the present epoch.
	s.key, s.counter = key{aead: o.present.aead, epoch: o.present.epoch, salt: o.present.salt}, 2
	if _, err := open(o, 0, data); err != nil {
		t.Fatal(err)
	}
	for o.credit < keyBlocks {
		if _, err := open(o, 0, early); err != ErrEpoch {
			t.Fatalf("with %d blocks: %v", o.credit, err)
		}
		d := build(t, s, rocev2.Datagram{Opcode: rocev2.RCWriteMiddle, DestQP: 2}, random(4096))
		if _, err := open(o, 0, d); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := open(o, 0, early); err != nil || o.Epoch() != keysAhead+1 {
		t.Errorf("with enough data: %v, in epoch %d", err, o.Epoch())
	}
}

// The lowest MaxBlocks is enough data for each epoch, also if a third of the packets is lost.
func TestLowestMaxBlocks(t *testing.T) {
	s, o := pair(t, AES128GCM, Limits{MaxBlocks: MinBlocks})
	plain := random(1024)
	for i := 0; s.Epoch() < 4*keysAhead; i++ {
		b := build(t, s, rocev2.Datagram{Opcode: rocev2.RCWriteMiddle, DestQP: 2}, plain)
		if i%3 == 0 {
			continue
		}
		if _, err := open(o, 0, b); err != nil {
			t.Fatalf("packet %d, epoch %d: %v", i, s.Epoch(), err)
		}
	}
}

// A counter or an epoch at the end of its range is never followed by one that was used.
func TestNothingWraps(t *testing.T) {
	s, o := pair(t, AES128GCM, Limits{})
	body := make([]byte, rocev2.BTHLen+Overhead)
	body[0] = byte(rocev2.UCSendOnly)
	s.counter = math.MaxUint64 - 1
	for i, want := range []struct {
		epoch   uint32
		counter uint64
	}{{0, math.MaxUint64}, {1, 1}, {1, 2}} {
		if err := s.Seal(body); err != nil {
			t.Fatal(err)
		}
		epoch, counter := binary.BigEndian.Uint32(body[12:]), binary.BigEndian.Uint64(body[16:])
		if epoch != want.epoch || counter != want.counter {
			t.Errorf("packet %d: epoch %d counter %d", i, epoch, counter)
		}
		if _, err := o.Open(0, bytes.Clone(body)); err != nil {
			t.Errorf("packet %d: %v", i, err)
		}
	}
	s.key.epoch, s.counter = math.MaxUint32, math.MaxUint64
	before := bytes.Clone(body)
	if err := s.Seal(body); err != ErrExhausted || !bytes.Equal(body, before) {
		t.Errorf("behind the last nonce: %v", err)
	}
	if err := s.Rekey(); err != ErrExhausted {
		t.Errorf("behind the last epoch: %v", err)
	}

	o.present.epoch, o.next.epoch = math.MaxUint32-1, math.MaxUint32
	if err := o.advance(0); err != nil || o.next != nil || o.Epoch() != math.MaxUint32 {
		t.Errorf("last epoch: %v", err)
	}
	if _, err := o.Open(0, bytes.Clone(before)); err != ErrEpoch {
		t.Errorf("epoch 1 in the last one: %v", err)
	}
}

func TestTooManyForged(t *testing.T) {
	s, o := pair(t, AES128GCM, Limits{})
	o.count.Forged = MaxForged - 1
	b := build(t, s, rocev2.Datagram{Opcode: rocev2.RCAck, DestQP: 2}, nil)
	p, _ := rocev2.ParseIP(b)
	bad := bytes.Clone(p.Body())
	bad[len(bad)-1] ^= 1
	if _, err := o.Open(0, bad); err != ErrForged {
		t.Fatal(err)
	}
	if _, err := open(o, 0, b); err != ErrExhausted || o.Counters().Exhausted != 1 {
		t.Errorf("%v, %+v", err, o.Counters())
	}
}

// The default limit, reached without encrypting 256 GiB.
func TestDefaultLimit(t *testing.T) {
	s, _ := pair(t, AES128GCM, Limits{})
	body := make([]byte, rocev2.BTHLen+4096+Overhead)
	body[0] = byte(rocev2.RCSendMiddle)
	s.blocks = MaxBlocks - blocks(4096)
	for _, want := range []uint32{0, 1, 1, 1} {
		if err := s.Seal(body); err != nil || s.Epoch() != want {
			t.Errorf("epoch %d, want %d: %v", s.Epoch(), want, err)
		}
	}
}

// The previous epoch is accepted until its time is over, to the nanosecond, and no longer when
// the epoch after the present one begins.
func TestOverlap(t *testing.T) {
	d := rocev2.Datagram{Opcode: rocev2.RCAck, DestQP: 2}
	for _, test := range []struct {
		at     int64
		epochs int
		want   error
	}{{100 + 1e9 - 1, 1, nil}, {100 + 1e9, 1, ErrEpoch}, {100, 2, ErrEpoch}} {
		s, o := pair(t, AES128GCM, Limits{Overlap: 1e9})
		late := build(t, s, d, nil)
		for range test.epochs {
			if err := s.Rekey(); err != nil {
				t.Fatal(err)
			}
			if _, err := open(o, 100, build(t, s, d, nil)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := open(o, test.at, late); !errors.Is(err, test.want) {
			t.Errorf("packet of epoch 0 at %d ns, %d epochs later: %v, want %v", test.at, test.epochs, err, test.want)
		}
	}
}
