// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The peer gets the Timeout of the dialling end, and one that it can use instead of none.
func TestTimeoutOfRequest(t *testing.T) {
	for timeout, want := range map[uint8]uint8{0: verbs.DefaultAttr().Timeout, 9: 9, 31: 31} {
		m := New(Config{})
		p := params()
		p.Attr.Timeout = timeout
		if _, err := m.Connect(0, p); err != nil {
			t.Fatal(err)
		}
		var got []uint8
		for _, a := range m.Take() {
			if s, ok := a.(Send); ok {
				got = append(got, mad.REQ{Header: s.MAD}.AckTimeout())
			}
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("Timeout %d: the REQ has %d, want %d", timeout, got, want)
		}
	}
}
