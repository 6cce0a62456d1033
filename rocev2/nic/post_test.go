// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A datagram's address handle is of the queue pair's protection domain (IBTA 10.2.3).
func TestAddressHandlePD(t *testing.T) {
	e := bench(t)
	ours, other := &PD{dev: e.dev, num: 1}, &PD{dev: e.dev, num: 2}
	x := &QP{pd: ours}
	if err := e.core.AddQP(&x.core, engine.QPConfig{Config: qp.Config{Type: verbs.UD, MaxSend: 1}}); err != nil {
		t.Fatal(err)
	}
	a := verbs.DefaultAttr()
	for _, a.State = range []verbs.State{verbs.StateInit, verbs.StateRTR, verbs.StateRTS} {
		if _, err := e.core.Modify(&x.core, &a, verbs.RequiredMask(verbs.UD, a.State), nil); err != nil {
			t.Fatal(err)
		}
	}
	wr := verbs.SendWR{Op: verbs.OpSend, AH: &AH{dev: e.dev, pd: other}, RemoteQPN: 5, RemoteQKey: 6}
	if err := x.PostSend(&wr); !errors.Is(err, errAHPD) || e.posts.any.Load() {
		t.Errorf("%v, queued: %v", err, e.posts.any.Load())
	}
}

// What a burst has made a batch grow to is given back; what is usual is kept.
func TestBatchKeeps(t *testing.T) {
	for name, c := range map[string]struct {
		batch postBatch
		keeps bool
	}{
		"usual":      {postBatch{make([]post, 5), make([]verbs.SGE, 100), make([]byte, 1000)}, true},
		"many":       {postBatch{make([]post, keepPosts+1), nil, nil}, false},
		"long lists": {postBatch{nil, make([]verbs.SGE, keepSGEs+1), nil}, false},
		"much data":  {postBatch{nil, nil, make([]byte, keepData+1)}, false},
	} {
		var p posts
		p.give(&c.batch)
		if got := p.spare == &c.batch; got != c.keeps {
			t.Errorf("%s: kept %v", name, got)
		}
		if len(p.spare.list)+len(p.spare.sges)+len(p.spare.data) != 0 {
			t.Errorf("%s: not empty", name)
		}
	}
}
