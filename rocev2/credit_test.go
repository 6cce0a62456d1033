// SPDX-License-Identifier: Apache-2.0

package rocev2

import "testing"

// A body of another version is not read.
func TestCreditOfAnotherVersion(t *testing.T) {
	for _, op := range []Opcode{OpCreditGrant, OpCreditReturn} {
		d := Datagram{Src: src4, Dst: dst4, Opcode: op, DestQP: ControlQPN, Stamp: &Stamp{}}
		b, err := d.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ParseIP(b)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "length, that of a HELLO", len(b), 116)
		equal(t, "read", p.CreditGrant() != nil || p.CreditReturn() != nil, true)
		b[28+BTHLen+1] = CreditVersion + 1
		equal(t, "read", p.CreditGrant() != nil || p.CreditReturn() != nil, false)
	}
}
