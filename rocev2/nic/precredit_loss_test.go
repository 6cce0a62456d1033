// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/faults"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// What carries or moves pre-credit, by what may be lost of it.
var (
	creditData = []rocev2.Opcode{rocev2.RCWriteFirst, rocev2.RCWriteMiddle, rocev2.RCWriteLast, rocev2.RCWriteOnly}
	creditAcks = []rocev2.Opcode{rocev2.RCAck, rocev2.OpSACK}
	creditTalk = []rocev2.Opcode{rocev2.OpCreditGrant, rocev2.OpCreditReturn}
)

// creditSenders is several senders with pre-credit, and a receiver whose budget has room
// for some of them only.
type creditSenders struct {
	to      *side
	from    []*side
	into    []*side // the receiver's ends
	sw      *faults.Switch
	budget  uint64
	highest uint64 // most that was seen outstanding
}

// newCreditSenders connects them over a network that loses this share of grants and returns.
func newCreditSenders(t *testing.T, senders int, share float64) *creditSenders {
	t.Helper()
	const frames = 512
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(senders + 1)})
	hosts := engines.On(t, top, "--policy", "mode=fixed")
	c := &creditSenders{budget: frames / 2 * 1024}
	var err error
	if c.sw, err = faults.NewLoss(top); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.sw.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.sw.Lose(share, creditTalk...); err != nil {
		t.Fatal(err)
	}
	hosts[0].MustOpen(t, nic.Options{PreCredit: true, RxFrames: frames})
	for _, h := range hosts[1:] {
		h.MustOpen(t, nic.Options{PreCredit: true})
		a, b := newSide(t, h, verbs.RC, creditSize), newSide(t, hosts[0], verbs.RC, creditSize)
		creditConnect(t, a, b, false)
		c.from, c.into = append(c.from, a), append(c.into, b)
	}
	c.to = c.into[0]
	until(t, "the receiver has granted", c.from[0], c.to, func() bool { return counter(c.to.dev, "precredit_granted") > 0 })
	return c
}

func (c *creditSenders) sum(name string) (n uint64) {
	for _, s := range c.from {
		n += counter(s.dev, name)
	}
	return n
}

// check compares what senders have used up with what the receiver knows of. The
// senders are asked first, so that what moves meanwhile makes the difference smaller.
func (c *creditSenders) check(t *testing.T) {
	t.Helper()
	used := c.sum("precredit_used") + c.sum("precredit_returned")
	now := counters(c.to.dev)
	if known := now["precredit_delivered"] + now["precredit_wasted"]; used > known+c.budget {
		t.Errorf("senders used %d bytes, the receiver knows of %d: %d outstanding, the budget is %d", used, known, used-known, c.budget)
	}
	if now["precredit_outstanding"] > c.budget {
		t.Errorf("%d bytes outstanding, the budget is %d", now["precredit_outstanding"], c.budget)
	}
	if sum := now["precredit_delivered"] + now["precredit_wasted"] + now["precredit_outstanding"]; sum != now["precredit_granted"] {
		t.Errorf("granted %d, accounted for %d", now["precredit_granted"], sum)
	}
	c.highest = max(c.highest, now["precredit_outstanding"])
}

// round has every sender write a message of its own size, which fits a first round
// trip, and waits for all.
func (c *creditSenders) round(t *testing.T, round int) {
	t.Helper()
	for i, s := range c.from {
		n := 1000 + (round*7919+i*30_011)%100_000
		s.post(t, &verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: s.sge(0, n), RemoteAddr: c.into[i].va, RKey: c.into[i].key})
	}
	for _, s := range c.from {
		if w := s.poll(t); w.Status != verbs.StatusSuccess { // at most 5 s: nothing hangs
			t.Fatalf("%+v\n%s\n%s", w, dump(s.dev), dump(c.to.dev))
		}
	}
	c.check(t)
}

func counters(d *nic.Device) map[string]uint64 {
	m := map[string]uint64{}
	for _, c := range d.Counters() {
		m[c.Name] = c.Value
	}
	return m
}

// Whatever is lost of what carries pre-credit, messages complete, no more is outstanding
// than the receiver can take, and when the network is well again its books are in order
// and new flows are paid for.
func TestPreCreditLoss(t *testing.T) {
	all := slices.Concat(creditData, creditAcks, creditTalk)
	for _, test := range []struct {
		name    string
		senders int
		share   float64
		of      []rocev2.Opcode
		found   string // name of the counter of the receiver that must have grown
	}{
		{"data", 3, 0.1, creditData, "precredit_wasted"},
		{"acks", 3, 0.3, creditAcks, ""},
		// More senders than shares, so that these change hands all the time.
		{"grants and returns", 5, 0.5, creditTalk, ""},
		{"everything", 5, 0.1, all, "precredit_wasted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			talk := 0.
			if slices.Contains(test.of, rocev2.OpCreditGrant) {
				talk = test.share
			}
			c := newCreditSenders(t, test.senders, talk)
			for i := range 5 {
				c.round(t, i)
			}
			if err := c.sw.Lose(test.share, test.of...); err != nil {
				t.Fatal(err)
			}
			before := counters(c.to.dev)
			for i := range 60 {
				c.round(t, i)
			}
			lost, err := c.sw.Lost(test.of...)
			if err != nil || lost == 0 {
				t.Fatalf("%d packets lost, %v", lost, err)
			}
			if err := c.sw.Lose(0); err != nil {
				t.Fatal(err)
			}
			used := c.sum("precredit_used")
			// What expires, expires; then every byte is one that arrived, came back or was lost.
			until(t, "nothing outstanding", c.from[0], c.to, func() bool { return counter(c.to.dev, "precredit_outstanding") == 0 })
			c.check(t)
			now := counters(c.to.dev)
			if drained, lost := now["precredit_delivered"], used-now["precredit_delivered"]; drained > used {
				t.Errorf("%d bytes drained, %d sent", drained, used)
			} else if test.found != "" && lost == 0 {
				t.Error("none of the lost packets was on pre-credit: the test shows nothing")
			}
			if test.found != "" && now[test.found] == before[test.found] {
				t.Errorf("%s has not risen", test.found)
			}
			for i := range 20 {
				c.round(t, i)
			}
			if again := c.sum("precredit_used"); again <= used {
				t.Errorf("no flow was paid for afterwards\n%s\n%s", dump(c.from[0].dev), dump(c.to.dev))
			}
			t.Logf("%d packets lost, %d bytes sent on pre-credit, at most %d of %d outstanding; %s", lost, used, c.highest, c.budget, creditLine(now))
		})
	}
}

func creditLine(m map[string]uint64) string {
	return fmt.Sprintf("receiver: granted %d, delivered %d, wasted %d, %d grants", m["precredit_granted"], m["precredit_delivered"], m["precredit_wasted"], m["precredit_grants_sent"])
}

// A sender that vanishes with pre-credit unused and in flight gives it back to
// the budget by its silence.
func TestPreCreditSenderVanishes(t *testing.T) {
	c := newCreditSenders(t, 3, 0)
	c.round(t, 1)
	gone := c.from[0]
	if err := c.sw.Lose(1); err != nil { // nothing that anybody sends arrives
		t.Fatal(err)
	}
	gone.post(t, &verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: gone.sge(0, 100_000), RemoteAddr: c.into[0].va, RKey: c.into[0].key})
	time.Sleep(50 * time.Millisecond)
	if err := gone.dev.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.sw.Lose(0); err != nil {
		t.Fatal(err)
	}
	c.from, c.into = c.from[1:], c.into[1:]
	until(t, "what it had is back", c.from[0], c.to, func() bool { return counter(c.to.dev, "precredit_outstanding") == 0 })
	used := c.sum("precredit_used")
	for i := range 10 {
		for j, s := range c.from {
			s.writeTo(t, c.into[j], 50_000, byte(i))
		}
	}
	if c.sum("precredit_used") <= used {
		t.Errorf("others are not granted any more\n%s", dump(c.to.dev))
	}
}
