// SPDX-License-Identifier: Apache-2.0

package proto

// SplitLease returns the messages of a lease.
func SplitLease(period, returns uint32, list []Entry) []Message {
	parts := max(1, (len(list)+MaxEntries-1)/MaxEntries)
	var out []Message
	for i := range parts {
		n := min(len(list), MaxEntries)
		out = append(out, &Lease{Period: period, Part: uint16(i), Parts: uint16(parts), Returns: returns, Entries: list[:n]})
		list = list[n:]
	}
	return out
}

// SplitText returns the messages of a text.
func SplitText(text []byte) []Message {
	parts := max(1, (len(text)+maxText-1)/maxText)
	var out []Message
	for i := range parts {
		n := min(len(text), maxText)
		out = append(out, &Text{Part: uint16(i), Parts: uint16(parts), Text: text[:n]})
		text = text[n:]
	}
	return out
}

// Joiner puts the parts of leases together.
type Joiner struct {
	open    bool // the first part is there, and no part was missing
	next    uint16
	period  uint32
	entries []Entry
}

// maxSlabs is how many entries a whole lease has at most.
const maxSlabs = 1 << 20

// Add adds a part. With the last one, it returns the whole lease and true. A part out of order is dropped,
// with those before and after it.
func (j *Joiner) Add(l *Lease) ([]Entry, bool) {
	if l.Part == 0 {
		*j = Joiner{open: true, period: l.Period}
	}
	if !j.open || l.Part != j.next || l.Period != j.period || len(j.entries)+len(l.Entries) > maxSlabs {
		*j = Joiner{}
		return nil, false
	}
	j.next++
	j.entries = append(j.entries, l.Entries...)
	if l.Part+1 < l.Parts {
		return nil, false
	}
	whole := j.entries
	*j = Joiner{}
	return whole, true
}
