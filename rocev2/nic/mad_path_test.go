// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// What the communication manager sends of its own accord is no answer.
func TestIsAnswer(t *testing.T) {
	for attr, want := range map[mad.Attr]bool{
		mad.AttrREQ: false, mad.AttrMRA: true, mad.AttrREJ: true, mad.AttrREP: true, mad.AttrRTU: false, mad.AttrDREQ: false,
		mad.AttrDREP: true, mad.AttrSIDRREQ: false, mad.AttrSIDRREP: true,
	} {
		m := mad.NewREQ(1).Header
		m[16], m[17] = byte(attr>>8), byte(attr)
		if got := isAnswer(m); got != want {
			t.Errorf("%s: %v", attr, got)
		}
	}
}
