// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"fmt"

	"github.com/softroce/softroce-xdp/bpf"
)

// Table is an implementation of an entry of the destination table.
type Table interface {
	// Do executes one event.
	Do(e *Event)
	// Regs reads the entry.
	Regs() bpf.DestRegs
}

// Maker returns an implementation with the entry before the first event of a vector.
type Maker func(v *Vector) Table

// Model is the Maker of the model of the card.
func Model(v *Vector) Table { return NewCard(v) }

// FirstDifference replays a vector on two implementations. It returns the number of the first
// event after which their entries differ, or -1.
func FirstDifference(v *Vector, a, b Maker) int {
	ta, tb := a(v), b(v)
	for i := range v.Events {
		ta.Do(&v.Events[i])
		tb.Do(&v.Events[i])
		if ta.Regs() != tb.Regs() {
			return i
		}
	}
	return -1
}

// Replay replays a file on an implementation. The error says what differs after which event.
func (f *File) Replay(make Maker) error {
	t := make(&f.Vector)
	for i := range f.Events {
		t.Do(&f.Events[i])
		if got := t.Regs(); got != f.Want[i] {
			return fmt.Errorf("%s: after event %d (%s) these registers differ: %v, the file has %v", f.Name, i+1, f.Events[i].text(),
				changes(destRegisters, bpf.WordsOf(&f.Want[i]), bpf.WordsOf(&got)), changes(destRegisters, bpf.WordsOf(&got), bpf.WordsOf(&f.Want[i])))
		}
	}
	return nil
}

// maxReplays bounds the work of Shrink.
const maxReplays = 2000

// Shrink returns a shorter stream on which two implementations still differ, and after its last
// event only. It removes events while they differ: halves first, then ever smaller parts, until
// no single event can be removed. v must be a stream on which they differ.
func Shrink(v *Vector, a, b Maker) *Vector {
	replays := 0
	// try returns the stream up to its first difference, or nil.
	try := func(events []Event) []Event {
		replays++
		t := *v
		t.Events = events
		if i := FirstDifference(&t, a, b); i >= 0 {
			return events[:i+1]
		}
		return nil
	}
	short := *v
	short.Events = try(v.Events)
	for part := max(len(short.Events)/2, 1); ; {
		removed := false
		for from := 0; from < len(short.Events) && replays < maxReplays; {
			to := min(from+part, len(short.Events))
			rest := append(append([]Event{}, short.Events[:from]...), short.Events[to:]...)
			if less := try(rest); less != nil {
				short.Events, removed = less, true
			} else {
				from = to
			}
		}
		switch {
		case replays >= maxReplays || part == 1 && !removed:
			return &short
		case part > 1:
			part /= 2
		}
	}
}

// Explain describes a difference between two implementations on a vector: the shortest stream
// that Shrink finds, as a vector file with the registers of the model, and the registers of a
// and b that differ after its last event. It returns "" if they do not differ.
func Explain(v *Vector, a, b Maker) string {
	if FirstDifference(v, a, b) < 0 {
		return ""
	}
	short := Shrink(v, a, b)
	ta, tb := a(short), b(short)
	for i := range short.Events {
		ta.Do(&short.Events[i])
		tb.Do(&short.Events[i])
	}
	ra, rb := ta.Regs(), tb.Regs()
	return fmt.Sprintf("after the last event the first implementation has %v, the second %v\n%s",
		changes(destRegisters, bpf.WordsOf(&rb), bpf.WordsOf(&ra)), changes(destRegisters, bpf.WordsOf(&ra), bpf.WordsOf(&rb)), Expect(short).String())
}
