// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Real links are cut: behind the switch, where no host sees it, and at the sender, which loses its carrier. All queue
// pairs continue, without an error. TestOutage has the limits of the times, this test prints them.
func TestOutageOfNetwork(t *testing.T) {
	for _, flows := range []int{1, 100} {
		top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
		hosts := engines.On(t, top, "--policy", "mode=fixed")
		for _, h := range hosts {
			h.MustOpen(t, nic.Options{})
		}
		o := newNetworkOutage(t, hosts, flows)
		behind := func(cut bool) error { return top.Cut("br0", top.Host(2).Port().Name(), cut) }
		atSender := func(cut bool) error {
			nl := top.Switch().Netlink()
			port, err := nl.LinkByName(top.Host(1).Port().Name())
			if err != nil {
				return err
			}
			if cut {
				return nl.LinkSetDown(port)
			}
			return nl.LinkSetUp(port)
		}
		for _, length := range []time.Duration{500 * time.Millisecond, time.Second, 3 * time.Second} {
			t.Run(fmt.Sprintf("%d queue pairs/%v/without event", flows, length), func(t *testing.T) { o.check(t, length, behind) })
			t.Run(fmt.Sprintf("%d queue pairs/%v/carrier", flows, length), func(t *testing.T) { o.check(t, length, atSender) })
		}
	}
}

// networkOutage has queue pairs from one host to the other that have two WRITEs outstanding all the time.
type networkOutage struct {
	dev   *nic.Device
	flows []*networkFlow
}

type networkFlow struct {
	a, b  *side
	after time.Time // first completion after the outage
}

func newNetworkOutage(t *testing.T, hosts []*engines.Host, flows int) *networkOutage {
	o := &networkOutage{dev: hosts[0].Dev}
	for range flows {
		a, b := connected(t, hosts, func(a *verbs.Attr) { a.Timeout = 17 }) // 14 s: the longest outage, and a machine that stands still
		f := &networkFlow{a: a, b: b}
		o.flows = append(o.flows, f)
		f.post(t)
		f.post(t)
	}
	return o
}

func (f *networkFlow) post(t *testing.T) {
	f.a.post(t, &verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: f.a.sge(0, 1000), RemoteAddr: f.b.va, RKey: f.b.key})
}

// run posts a WRITE for each that has completed, until done.
func (o *networkOutage) run(t *testing.T, done func() bool) {
	t.Helper()
	var out [4]verbs.Completion
	for end := time.Now().Add(testkit.Patience); !done(); time.Sleep(200 * time.Microsecond) {
		for _, f := range o.flows {
			for _, c := range out[:f.a.cq.Poll(out[:])] {
				if c.Status != verbs.StatusSuccess {
					t.Fatalf("%+v\n%s", c, dump(o.dev))
				}
				if f.after.IsZero() {
					f.after = time.Now()
				}
				f.post(t)
			}
		}
		if time.Now().After(end) {
			t.Fatalf("a queue pair does not continue\n%s", dump(o.dev))
		}
	}
}

// allContinue runs until each queue pair has completed a WRITE.
func (o *networkOutage) allContinue(t *testing.T) {
	t.Helper()
	for _, f := range o.flows {
		f.after = time.Time{}
	}
	o.run(t, func() bool {
		return !slices.ContainsFunc(o.flows, func(f *networkFlow) bool { return f.after.IsZero() })
	})
}

func (o *networkOutage) check(t *testing.T, length time.Duration, cut func(bool) error) {
	// Neighbours that the kernel asks for in an outage fail after three attempts, a second apart: no other outage
	// follows before one was answered.
	up := time.Now()
	o.run(t, func() bool { return time.Since(up) > 1200*time.Millisecond })
	o.allContinue(t)
	before := counter(o.dev, "tx_retransmits")
	if err := cut(true); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	o.run(t, func() bool { return time.Since(begin) > length })
	again := counter(o.dev, "tx_retransmits") - before
	if err := cut(false); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	o.allContinue(t)
	var extra []time.Duration
	for _, f := range o.flows {
		extra = append(extra, f.after.Sub(back))
	}
	slices.Sort(extra)
	t.Logf("%d packets sent again in the outage; first, second and last queue pair continue after %v, %v, %v",
		again, extra[0], extra[min(1, len(extra)-1)], extra[len(extra)-1])
}
