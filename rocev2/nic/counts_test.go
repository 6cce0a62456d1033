// SPDX-License-Identifier: Apache-2.0

package nic

import "testing"

// Counters that were closed are counters of the device, once, and the engine forgets them.
func TestCounts(t *testing.T) {
	d, err := OpenLoopback(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const name = "tx_retransmits"
	value := func() (v uint64) {
		for _, c := range d.Counters() {
			if c.Name == name {
				v = c.Value
			}
		}
		return v
	}
	a, b := d.NewCounts(), d.NewCounts()
	d.InLoop(func() { d.eng.core.QPCounters().SentAgain, a.qps.SentAgain, b.qps.SentAgain = 1, 20, 300 })
	for _, c := range []*Counts{a, a, b} { // a twice
		if n := value(); n != 321 {
			t.Errorf("%s is %d", name, n)
		}
		c.Close()
	}
	if n := value(); n != 321 {
		t.Errorf("%s is %d at the end", name, n)
	}
	d.InLoop(func() {
		if len(d.eng.counts) != 0 {
			t.Errorf("the engine has %d counters of users", len(d.eng.counts))
		}
	})
}
