// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// A datagram's address handle is of the queue pair's protection domain (IBTA 10.2.3).
func TestAddressHandlePD(t *testing.T) {
	e := bench(t)
	ours, other := &PD{dev: e.dev, num: 1}, &PD{dev: e.dev, num: 2}
	x := &QP{dev: e.dev, pd: ours, conf: qp.Config{Type: qp.UD, MaxSend: 1}}
	x.state.Store(uint32(qp.RTS))
	wr := qp.SendWR{Op: qp.OpSend, AH: (&AH{dev: e.dev, pd: other}).To(5, 6)}
	if err := x.PostSend(&wr); !errors.Is(err, errAHPD) || e.posts.any.Load() {
		t.Errorf("%v, queued: %v", err, e.posts.any.Load())
	}
}
