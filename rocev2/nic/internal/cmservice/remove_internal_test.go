// SPDX-License-Identifier: Apache-2.0

package cmservice

import (
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/cm"
)

// A connection that is gone belongs neither to its queue pair nor to its session.
func TestRemove(t *testing.T) {
	const qpn = 7
	s := &Service{conns: map[cm.ID]*conn{}, byQPN: map[uint32][]cm.ID{}, sealed: map[uint32]struct{}{}}
	x := &session{ids: map[cm.ID]struct{}{}}
	for id := cm.ID(1); id <= 2; id++ {
		s.add(id, x)
		s.use(id, qpn)
	}
	s.remove(1, s.conns[1])
	if _, has := x.ids[1]; has || len(s.conns) != 1 || !slices.Equal(s.byQPN[qpn], []cm.ID{2}) {
		t.Errorf("one of two is gone: %v, %v, %v", s.conns, s.byQPN, x.ids)
	}
	s.remove(2, s.conns[2])
	if len(s.conns)+len(s.byQPN)+len(x.ids) != 0 {
		t.Errorf("both are gone: %v, %v, %v", s.conns, s.byQPN, x.ids)
	}
}
