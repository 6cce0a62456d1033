// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A packet ahead of the expected one is buffered, unless Arrival.Exact says that it may be forged.
func TestDeliver(t *testing.T) {
	for _, exact := range []bool{false, true} {
		x := newTarget(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.Selective = true })
		w := write(wo, dataBase+4, 4, 4)
		w.PSN = psn(1)
		x.q.Deliver(Arrival{Now: x.now, Exact: exact}, build(t, w))
		if buffered := x.q.rsp.reorder != nil; buffered == exact {
			t.Errorf("exact %t: buffered %t", exact, buffered)
		}
	}
}

// NextOn returns the packets of NextData.
func TestNextOn(t *testing.T) {
	x := newSource(t, verbs.RC)
	if x.q.NextOn(x.now, 0, &x.out) {
		t.Errorf("%s without a work request", x.out.Opcode)
	}
	x.post(verbs.OpWrite, 1, 0)
	if !x.q.NextOn(x.now, 0, &x.out) || x.out.Opcode != wo || x.out.PSN != firstPSN {
		t.Errorf("%s, PSN %d", x.out.Opcode, x.out.PSN)
	}
}
