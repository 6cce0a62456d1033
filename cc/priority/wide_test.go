// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func (w wide) big() *big.Int {
	x := new(big.Int).SetUint64(w.hi)
	return x.Lsh(x, 64).Or(x, new(big.Int).SetUint64(w.lo))
}

// mulDiv against math/big, divisors of one and of two words.
func TestMulDiv(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		d := wide{rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Max(1<<20), rapid.Uint64()).Draw(t, "hi"), rapid.Uint64().Draw(t, "lo")}
		if !d.above(a) {
			t.Skip("the quotient would not fit")
		}
		q, r := mulDiv(a, b, d)
		n := new(big.Int).Mul(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
		wantQ, wantR := new(big.Int).QuoRem(n, d.big(), new(big.Int))
		if wantQ.Cmp(new(big.Int).SetUint64(q)) != 0 || wantR.Cmp(r.big()) != 0 {
			t.Fatalf("%d*%d/%v = %d rest %v, want %v rest %v", a, b, d.big(), q, r.big(), wantQ, wantR)
		}
	})
}
