// SPDX-License-Identifier: Apache-2.0

package precredit

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// List has each sender of the list once, the largest share first, and of equal shares the oldest.
func TestList(t *testing.T) {
	p := testParams(100, 30, 5)
	r := NewReceiver(p, 1)
	for id := range SenderID(4) {
		r.NewFlow(1, id)
	}
	want := []Entry{{0, 30, 30}, {1, 30, 30}, {2, 30, 30}, {3, 10, 10}}
	if got := r.List(nil); !slices.Equal(got, want) || r.Free() != 0 {
		t.Errorf("%v, %d free, want %v", got, r.Free(), want)
	}
	r.NewFlow(2, 9) // the head's share
	r.Leave(2)
	want = []Entry{{7, 0, 0}, {1, 30, 30}, {9, 30, 0}, {3, 10, 10}}
	if got := r.List([]Entry{{7, 0, 0}}); !slices.Equal(got, want) || r.Free() != 30 || r.Epoch() != 6 {
		t.Errorf("%v, %d free, epoch %d, want %v", got, r.Free(), r.Epoch(), want)
	}
	// Its head is that of the heap, whatever happens.
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 2000 {
		if id := SenderID(rng.IntN(10)); rng.IntN(3) == 0 {
			r.Leave(id)
		} else {
			r.NewFlow(int64(i), id)
		}
		got := r.List(nil)
		if len(got) != len(r.list) || len(got) > 0 && got[0].ID != r.list[0].id {
			t.Fatalf("%v, the heap has %d senders", got, len(r.list))
		}
		if !slices.IsSortedFunc(got, func(a, b Entry) int { return int(b.Share) - int(a.Share) }) {
			t.Fatalf("%v", got)
		}
	}
}

// Data serves what came on pre-credit, and takes the first packet of a message without it for a new
// flow, unless the sender has pre-credit.
func TestReceiverData(t *testing.T) {
	r := NewReceiver(testParams(100, 30, 5), 1)
	if r.Data(1, 1, Arrival{Bytes: 10}) || len(r.List(nil)) != 0 {
		t.Errorf("a packet in the middle of a message: %v", r.List(nil))
	}
	if !r.Data(1, 1, Arrival{Bytes: 10, First: true}) || r.Share(1) != 30 {
		t.Errorf("the first packet of a message: %v", r.List(nil))
	}
	if r.Data(1, 1, Arrival{Bytes: 10, First: true}) {
		t.Error("the first packet of a sender in the list is taken for a new flow")
	}
	_, g, _ := r.Next(1)
	r.Return(2, 1, Return{Epoch: g.Epoch, Limit: g.Limit, Seq: g.Seq})
	a := Arrival{Bytes: 10, HasCredit: true, Credit: Credit{20, g.Seq}, First: true}
	if r.Data(3, 1, a) || r.Stats().Drained != 0 {
		t.Errorf("a copy: %+v", r.Stats())
	}
	a.Fresh = true
	if !r.Data(3, 1, a) || r.Stats().Drained != 10 {
		t.Errorf("on pre-credit: %+v", r.Stats())
	}
}

func TestSenderParamsValidate(t *testing.T) {
	good := SenderParams{LinkBps: 1, RTTNs: 1, BDPBytes: 1, MaxWaitNs: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(p *SenderParams){
		"link is 0":               func(p *SenderParams) { p.LinkBps = 0 },
		"product is 0":            func(p *SenderParams) { p.BDPBytes = 0 },
		"product is 1073741825":   func(p *SenderParams) { p.BDPBytes = 1<<30 + 1 },
		"a flow is 1073741825":    func(p *SenderParams) { p.FlowBytes = 1<<30 + 1 },
		"bound is 3":              func(p *SenderParams) { p.Bound = 3 },
		"RTT is 0":                func(p *SenderParams) { p.RTTNs = 0 },
		"wait is 3600000000001: ": func(p *SenderParams) { p.MaxWaitNs = maxTime + 1 },
	} {
		p := good
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
