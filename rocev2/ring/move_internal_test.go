// SPDX-License-Identifier: Apache-2.0

package ring

import "testing"

// A move begins with what is before a gap, and takes the entry that fills the gap and those behind it in its second step.
// The alert behind the gap is still one in the new ring.
func TestMoveOverGap(t *testing.T) {
	from, c := openCompletions(t, 8)
	publish(t, from, 0, false)
	expect(t, c, 0)
	publish(t, from, 1, false)
	gap, _ := from.take(1)
	publish(t, from, 3, true)
	to, moved := openCompletions(t, 16)
	m, err := from.MoveTo(to.ring, 16)
	if err != nil {
		t.Fatal(err)
	}
	if m.moved != 1 {
		t.Errorf("%d completions were moved, and 1 is before the gap", m.moved)
	}
	from.write(gap, completion(2))
	if to, err = m.Finish(); err != nil {
		t.Fatal(err)
	}
	if to.alerted.Load() != 3 {
		t.Errorf("the alert is behind entry %d, want 3", to.alerted.Load())
	}
	publish(t, to, 4, false)
	expect(t, moved, 1, 2, 3, 4)
}
