// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// A rejection shows the text of the peer, and nothing that a terminal would obey.
func TestRejectionShowsText(t *testing.T) {
	const before = "cm: rejected by the peer: refused by the application"
	for _, c := range []struct{ private, text, shown string }{
		{"come back later\x00\x00\x00", "come back later", before + `: "come back later"`},
		{"später", "später", before + `: "später"`},
		{`say "please"`, `say "please"`, before + `: "say \"please\""`},
		{"", "", before},
		{"\x00\x00", "", before},
		{"\x1b[2Jgone", "", before},
		{"two\nlines", "", before},
		{"a\x00b", "", before},
		{"\xff\xfe", "", before},
		{"\u202egnirts", "", before}, // right-to-left override
	} {
		e := &cm.RejectedError{Reason: mad.ReasonConsumer, Private: []byte(c.private)}
		if e.Text() != c.text || e.Error() != c.shown {
			t.Errorf("%q: text %q, error %q", c.private, e.Text(), e.Error())
		}
	}
	u := &cm.UnresolvedError{Status: mad.SIDRNoQP, Private: []byte("none left\x00")}
	if want := "cm: not resolved by the peer: " + mad.SIDRNoQP.String() + `: "none left"`; u.Error() != want {
		t.Errorf("%q, want %q", u, want)
	}
}
