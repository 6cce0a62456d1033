// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

var request = Request{Kind: KindJoin, Name: "node-1", Token: 0x1122334455667788, Period: time.Second, Demand: 1 << 30}

var offer = Offer{Challenge: 0x99aabbccddeeff00}

var messages = []struct {
	message Message
	bytes   string
}{
	{&Ask{Period: 5}, "02100000 00000005"},
	{&Report{Token: 0x1122334455667788, Period: 5, Demand: 1 << 32, Used: 4096}, "02110000 1122334455667788 00000005 0000000100000000 0000000000001000"},
	{
		&Lease{Period: 6, Part: 1, Parts: 2, Returns: 3, Entries: []Entry{{Slab: 3, VA: 0x7f0012345678, RKey: 0xabcdef01}, {Slab: 4, Return: 2000000, VA: 1, RKey: 2}}},
		"02120000 00000006 0001 0002 00000003 00000002" +
			"00000003 00000000 00007f0012345678 abcdef01 00000000" +
			"00000004 001e8480 0000000000000001 00000002 00000000",
	},
	{&Lease{Period: 6, Parts: 1}, "02120000 00000006 0000 0001 00000000 00000000"},
	{&Return{Token: 0x1122334455667788, Slabs: []uint32{4, 9}}, "02130000 1122334455667788 00000002 00000004 00000009"},
	{&Leave{Token: 0x1122334455667788}, "02140000 1122334455667788"},
	{&Text{Part: 0, Parts: 1, Text: []byte("bye")}, "02150000 0000 0001 627965"},
	{&Begin{Token: 0x1122334455667788, Challenge: 0x99aabbccddeeff00}, "02160000 1122334455667788 99aabbccddeeff00"},
	{
		&Welcome{
			Token: 0x1122334455667788, Generation: 0x99aabbccddeeff00, SlabBytes: 4 << 20, Slabs: 256, Resumed: true,
			Grace: 2 * time.Second, Hold: 30 * time.Second,
		},
		"02170000 1122334455667788 99aabbccddeeff00 0000000000400000 00000100 00000001 0000000077359400 00000006fc23ac00",
	},
	{&Refusal{Text: []byte("no")}, "02180000 00000000 6e6f"},
}

// The bytes are those of docs/run/memory-pool.md.
func TestMessageBytes(t *testing.T) {
	for _, x := range messages {
		want := testkit.Unhex(t, x.bytes)
		if got := Append(nil, x.message); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %x, want %x", x.message, got, want)
		}
		got, err := Parse(want)
		if err != nil || !reflect.DeepEqual(got, x.message) {
			t.Errorf("%x: %+v, %v", want, got, err)
		}
	}
}

func TestPrivateBytes(t *testing.T) {
	got, err := request.AppendBinary(nil)
	want := testkit.Unhex(t, "53520201 6e6f64652d310000000000000000000000000000 1122334455667788 000000003b9aca00 0000000040000000")
	if err != nil || !reflect.DeepEqual(got, want) || len(got) != RequestLen {
		t.Errorf("request %x, want %x: %v", got, want, err)
	}
	if r, err := ParseRequest(append(want, 0, 0)); err != nil || r != request {
		t.Errorf("%+v, %v", r, err)
	}
	got, err = offer.AppendBinary(nil)
	want = testkit.Unhex(t, "53520204 00000000 99aabbccddeeff00")
	if err != nil || !reflect.DeepEqual(got, want) || len(got) != OfferLen {
		t.Errorf("offer %x, want %x: %v", got, want, err)
	}
	if o, err := ParseOffer(append(want, 0, 0)); err != nil || o != offer {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := (Request{Name: strings.Repeat("a", 21)}).AppendBinary(nil); err == nil {
		t.Error("a name of 21 bytes is accepted")
	}
}

// Every truncation of what has a fixed length is an error, and so is every wrong byte of its beginning.
func TestTruncated(t *testing.T) {
	for _, x := range messages {
		whole := testkit.Unhex(t, x.bytes)
		fixed := len(whole)
		switch x.message.(type) {
		case *Text, *Refusal:
			fixed = HeaderLen
		}
		for n := range fixed {
			if m, err := Parse(whole[:n]); !errors.Is(err, ErrFormat) {
				t.Errorf("%T: %d of %d bytes: %+v, %v", x.message, n, len(whole), m, err)
			}
		}
		for i := range 2 {
			wrong := append([]byte{}, whole...)
			wrong[i] += 100
			if _, err := Parse(wrong); !errors.Is(err, ErrFormat) {
				t.Errorf("%x: %v", wrong, err)
			}
		}
	}
	r, _ := request.AppendBinary(nil)
	o, _ := offer.AppendBinary(nil)
	for n := range RequestLen {
		if _, err := ParseRequest(r[:n]); !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes of a request: %v", n, err)
		}
	}
	for n := range OfferLen {
		if _, err := ParseOffer(o[:n]); !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes of an offer: %v", n, err)
		}
	}
	for i := range 4 {
		for _, b := range [][]byte{r, o} {
			b[i] += 100
			_, asRequest := ParseRequest(b)
			_, asOffer := ParseOffer(b)
			if asRequest == nil || asOffer == nil {
				t.Errorf("%x is accepted", b)
			}
			b[i] -= 100
		}
	}
	if _, err := Parse(append(Append(nil, &Text{Parts: 1}), make([]byte, MaxMessage)...)); !errors.Is(err, ErrFormat) {
		t.Errorf("too long: %v", err)
	}
	if _, err := Parse(Append(nil, &Text{Part: 1, Parts: 1})); !errors.Is(err, ErrFormat) {
		t.Errorf("part 1 of 1: %v", err)
	}
}

// A lease of any length arrives whole; parts out of order are dropped.
func TestParts(t *testing.T) {
	for _, n := range []int{0, 1, MaxEntries, MaxEntries + 1, 3*MaxEntries - 1} {
		list := make([]Entry, n)
		for i := range list {
			list[i] = Entry{Slab: uint32(i), RKey: uint32(n)}
		}
		var j Joiner
		var parts []*Lease
		for _, m := range SplitLease(9, 1, list) {
			b := Append(nil, m)
			if len(b) > MaxMessage {
				t.Fatalf("%d entries: a message of %d bytes", n, len(b))
			}
			p, err := Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, p.(*Lease))
		}
		for i, p := range parts {
			got, whole := j.Add(p)
			if whole != (i == len(parts)-1) || whole && (len(got) != n || n > 0 && !reflect.DeepEqual(got, list)) {
				t.Errorf("%d entries, part %d of %d: %d, %v", n, i, len(parts), len(got), whole)
			}
		}
		if len(parts) > 2 {
			j.Add(parts[0])
			j.Add(parts[2])
			for _, p := range parts[1:] {
				if got, whole := j.Add(p); whole {
					t.Errorf("parts 0, 2, 1, 2 are a lease of %d", len(got))
				}
			}
		}
	}
	text := []byte(strings.Repeat("words ", 10000))
	var got []byte
	for _, m := range SplitText(text) {
		got = append(got, m.(*Text).Text...)
	}
	if string(got) != string(text) {
		t.Error("the text has changed")
	}
}

// What Parse accepts, Append writes again.
func FuzzParse(f *testing.F) {
	for _, x := range messages {
		f.Add(Append(nil, x.message))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		again, err := Parse(Append(nil, m))
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Errorf("%x: %+v, then %+v, %v", b, m, again, err)
		}
		if l, ok := m.(*Lease); ok {
			(&Joiner{}).Add(l)
		}
	})
}

func FuzzPrivate(f *testing.F) {
	r, _ := request.AppendBinary(nil)
	o, _ := offer.AppendBinary(nil)
	f.Add(r)
	f.Add(o)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := ParseRequest(b); err == nil {
			again, err := r.AppendBinary(nil)
			if err != nil || string(again) != string(b[:RequestLen]) {
				t.Errorf("%x: %x, %v", b, again, err)
			}
		}
		if o, err := ParseOffer(b); err == nil {
			bytes, _ := o.AppendBinary(nil)
			if again, err := ParseOffer(bytes); err != nil || again != o {
				t.Errorf("%x: %+v, %v", b, again, err)
			}
		}
	})
}
