// SPDX-License-Identifier: Apache-2.0

package cmservice_test

import (
	"testing"
	"testing/synctest"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/cm"
)

// The connection of a queue pair that was destroyed ends at both ends, whichever end it was, and
// those of other queue pairs go on.
func TestDestroyed(t *testing.T) {
	for _, passive := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, b := newNetwork(t, 4)
			x, y := a.open(t), b.open(t)
			testkit.Must(t, y.Listen(port, 0))
			kept, _ := connectPair(t, x, y, 0x70, 0x71)
			idX, idY := connectPair(t, x, y, 0x80, 0x81)
			if passive {
				b.svc.Destroyed(0x81)
			} else {
				a.svc.Destroyed(0x80)
			}
			for _, end := range []struct {
				s  cm.Session
				id cm.ID
			}{{x, idX}, {y, idY}} {
				if e := await(t, end.s, cm.Disconnected); e.ID != end.id || e.Err != nil {
					t.Errorf("%+v, want ID %d", e, end.id)
				}
				await(t, end.s, cm.Gone)
			}
			testkit.Must(t, x.Disconnect(kept, nil))
		})
	}
}

// An attempt ends, too. A connection that is made later by a queue pair with the same number stays.
func TestDestroyedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newNetwork(t, 5)
		x, y := a.open(t), b.open(t)
		testkit.Must(t, y.Listen(port, 0))
		p := params()
		_, err := x.Connect(p)
		testkit.Must(t, err)
		request := await(t, y, cm.Request)
		a.svc.Destroyed(p.QPN)
		a.svc.Destroyed(p.QPN)
		id, _ := x.Connect(func() cm.ConnectParams { q := p; q.Service = port + 1; return q }()) // nobody listens: it fails by itself
		if e := await(t, x, cm.Failed); e.Err != cm.ErrCanceled {
			t.Errorf("%+v", e)
		}
		await(t, x, cm.Gone)
		if e := await(t, x, cm.Failed); e.ID != id || e.Err == cm.ErrCanceled {
			t.Errorf("%+v", e)
		}
		await(t, x, cm.Gone)
		if e := await(t, y, cm.Failed); e.ID != request.ID {
			t.Errorf("%+v", e)
		}
	})
}

// connectPair connects two queue pairs.
func connectPair(t *testing.T, x, y cm.Session, qpnX, qpnY uint32) (idX, idY cm.ID) {
	t.Helper()
	p := params()
	p.QPN = qpnX
	idX = testkit.Must1(x.Connect(p))(t)
	e := await(t, y, cm.Request)
	path := e.Path
	path.Local.QPN = qpnY
	testkit.Must(t, y.Accept(e.ID, path, nil))
	await(t, x, cm.Reply)
	testkit.Must(t, x.Ready(idX, nil))
	await(t, x, cm.Established)
	await(t, y, cm.Established)
	return idX, e.ID
}
