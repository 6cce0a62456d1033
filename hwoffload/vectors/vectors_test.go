// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"fmt"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/vectors"
)

// S1.5 on the card: node 4 stores a transmit time of 5, and node 1 stores (5, 3).
func Example() {
	v := vectors.All()[0]
	c := vectors.NewCard(&v)
	c.Do(&v.Events[0]) // data arrives
	fmt.Println(c.Regs().InTxNs)
	c.Do(&v.Events[1]) // feedback arrives
	fmt.Println(c.Regs().TxNs, c.Regs().RxNs)
	// Output:
	// 5
	// 5 3
}

// The vector of the four cases has all four, and the actions of S1.6.
func TestFourCases(t *testing.T) {
	v := vectors.All()[1]
	c := vectors.NewCard(&v)
	var got string
	for i := range v.Events {
		c.Do(&v.Events[i])
		if d := c.Regs(); v.Events[i].Evaluate {
			got += fmt.Sprintf("case %d action %d decisions %d\n", d.Policy.CaseNo, d.Policy.Action, d.Policy.Decisions)
		}
	}
	want := `case 0 action 0 decisions 0
case 1 action 4 decisions 1
case 2 action 3 decisions 2
case 3 action 1 decisions 3
case 4 action 1 decisions 4
case 4 action 2 decisions 5
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Random streams reach what they are for.
func TestRandom(t *testing.T) {
	var decisions, samples, ces, refused int
	for seed := range uint64(8) {
		v := vectors.Random(seed, 1000)
		c := vectors.NewCard(&v)
		for i := range v.Events {
			c.Do(&v.Events[i])
			samples = max(samples, int(c.Regs().WinSamples))
		}
		d := c.Regs()
		decisions += int(d.Policy.Decisions)
		ces += int(d.Ces)
		refused += int(d.RxUnstamped)
		if d.RxPackets == 0 || d.TxNs == 0 || d.InTxNs == 0 {
			t.Errorf("seed %d: %+v", seed, d)
		}
	}
	if decisions < 100 || samples < 3 || ces < 50 || refused < 50 {
		t.Errorf("%d decisions, up to %d samples in a window, %d CE, %d refused", decisions, samples, ces, refused)
	}
}
