// SPDX-License-Identifier: Apache-2.0

package devices_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A message goes between two queue pairs, and from a queue pair to itself. A closed device is closed once more when
// the test ends.
func TestConnect(t *testing.T) {
	dev := devices.Loopback(t)
	pd := testkit.Must1(dev.AllocPD())(t)
	qps, cqs := [3]verbs.QP{}, [3]verbs.CQ{}
	for i := range qps {
		cqs[i] = testkit.Must1(dev.CreateCQ(4))(t)
		qps[i] = testkit.Must1(pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cqs[i], RecvCQ: cqs[i]}))(t)
	}
	devices.Connect(t, qps[0], qps[1], verbs.DefaultAttr())
	devices.Connect(t, qps[2], qps[2], verbs.DefaultAttr())
	for _, ends := range [][2]int{{0, 1}, {1, 0}, {2, 2}} {
		testkit.Must(t, qps[ends[1]].PostRecv(&verbs.RecvWR{ID: 5}))
		testkit.Must(t, qps[ends[0]].PostSend(&verbs.SendWR{ID: 6, Op: verbs.OpSend, Flags: verbs.Signaled}))
		got := map[uint64]verbs.Status{}
		for _, i := range ends {
			c := devices.Next(t, cqs[i])
			got[c.WRID] = c.Status
		}
		if len(got) != 2 || got[5] != verbs.StatusSuccess || got[6] != verbs.StatusSuccess {
			t.Errorf("from %d to %d: %v", ends[0], ends[1], got)
		}
	}
	testkit.Must(t, dev.Close())
}
