// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// device is a model of which some reads are different.
type device struct {
	*card.Model
	r32 func(addr uint64, v uint32) uint32
}

func (d *device) R32(addr uint64) uint32 {
	v := d.Model.R32(addr)
	if d.r32 != nil {
		v = d.r32(addr, v)
	}
	return v
}

func openPreCredit(t *testing.T, r32 func(addr uint64, v uint32) uint32) *hwoffload.Card {
	t.Helper()
	c, err := hwoffload.Open(&device{card.New(), r32})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What EnablePreCredit writes, ReadPreCredit reads, each parameter by itself.
func TestParameters(t *testing.T) {
	c := openPreCredit(t, nil)
	base := driver.PlanPreCredit(100e9, 10_000, 1<<20, 4096)
	for i, change := range []func(p *precredit.Params, s *precredit.SenderParams){
		func(p *precredit.Params, s *precredit.SenderParams) {},
		func(p *precredit.Params, s *precredit.SenderParams) { p.BufferBytes = 1 << 29 },
		func(p *precredit.Params, s *precredit.SenderParams) { p.ShareBytes = 5000 },
		func(p *precredit.Params, s *precredit.SenderParams) { p.MinBytes = 77 },
		func(p *precredit.Params, s *precredit.SenderParams) { p.LifeNs = 3e12 },
		func(p *precredit.Params, s *precredit.SenderParams) { p.DelayNs = 2e12 },
		func(p *precredit.Params, s *precredit.SenderParams) { p.RetryNs = 1e12 },
		func(p *precredit.Params, s *precredit.SenderParams) { s.LinkBps = 1 << 40 },
		func(p *precredit.Params, s *precredit.SenderParams) { s.RTTNs = 3e12 },
		func(p *precredit.Params, s *precredit.SenderParams) { s.BDPBytes = 1 << 30 },
		func(p *precredit.Params, s *precredit.SenderParams) { s.FlowBytes = 12 },
		func(p *precredit.Params, s *precredit.SenderParams) { s.MaxWaitNs = 3e12 },
		func(p *precredit.Params, s *precredit.SenderParams) { s.SmallBias = 99 },
		func(p *precredit.Params, s *precredit.SenderParams) { s.AgingStep = 98 },
		func(p *precredit.Params, s *precredit.SenderParams) { s.Bound = precredit.BoundNone },
	} {
		want := base
		change(&want.Receiver, &want.Sender)
		if err := driver.EnablePreCredit(c, want, 0); err != nil {
			t.Fatal(i, err)
		}
		got, err := driver.ReadPreCredit(c)
		if on, _ := driver.PreCreditActive(c); got != want || err != nil || !on {
			t.Errorf("%d: %+v (%v), active %v, want %+v", i, got, err, on, want)
		}
	}
}

// Errors say what is wrong, and nothing runs without end.
func TestErrors(t *testing.T) {
	const at = regs.PrecreditBase
	plan := driver.PlanPreCredit(100e9, 10_000, 1<<20, 4096)
	bad := plan
	bad.Sender.LinkBps = 0
	if err := driver.EnablePreCredit(openPreCredit(t, nil), bad, 0); err == nil || !strings.Contains(err.Error(), "link is 0") {
		t.Errorf("no link: %v", err)
	}
	bad = plan
	bad.Receiver.ShareBytes = 1 << 21
	if err := driver.EnablePreCredit(openPreCredit(t, nil), bad, 0); err == nil || !strings.Contains(err.Error(), "share is 2097152") {
		t.Errorf("share: %v", err)
	}
	registersOnly := openPreCredit(t, func(addr uint64, v uint32) uint32 {
		if addr == at+regs.PrecreditStatusOffset {
			return 0
		}
		return v
	})
	if err := driver.EnablePreCredit(registersOnly, plan, 0); !errors.Is(err, driver.ErrPreCreditMissing) {
		t.Errorf("a card that has the registers only: %v", err)
	}
	reads := uint32(0)
	unsteady := openPreCredit(t, func(addr uint64, v uint32) uint32 {
		if addr == at+regs.PrecreditListChangesOffset {
			reads++
			return reads
		}
		return v
	})
	if _, err := driver.ReadSenders(unsteady); !errors.Is(err, driver.ErrSendersBusy) {
		t.Errorf("a list that never rests: %v", err)
	}
	wrong := openPreCredit(t, func(addr uint64, v uint32) uint32 {
		if addr == at+regs.PrecreditSendersOffset {
			return ^uint32(0)
		}
		return v
	})
	if _, err := driver.ReadSenders(wrong); err == nil || !strings.Contains(err.Error(), "4294967295 senders") {
		t.Errorf("a list that is too long: %v", err)
	}
	dead := openPreCredit(t, nil)
	dead.R32(3) // an address that is not aligned: the device fails
	_, err := driver.ReadSenders(dead)
	if err2 := driver.EnablePreCredit(dead, plan, 0); err == nil || err2 == nil || driver.DisablePreCredit(dead) == nil {
		t.Errorf("a device that failed: %v, %v", err, err2)
	}
}

// A list that changes while it is read is read again.
func TestReadAgain(t *testing.T) {
	const at = regs.PrecreditBase
	m := card.New()
	var c *hwoffload.Card
	d := &device{Model: m}
	changed := false
	d.r32 = func(addr uint64, v uint32) uint32 {
		if addr == at+regs.PrecreditListShareOffset && !changed {
			changed = true
			m.Put(at+regs.PrecreditListChangesOffset, 9)
			m.Put(at+regs.PrecreditListNodeOffset, 5)
		}
		return v
	}
	c, err := hwoffload.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	m.Put(at+regs.PrecreditSendersOffset, 1)
	m.Put(at+regs.PrecreditListNodeOffset, 4)
	m.Put(at+regs.PrecreditListShareOffset, 1000)
	m.Put(at+regs.PrecreditListOutstandingOffset, 10)
	s, err := driver.ReadSenders(c)
	if err != nil || len(s.List) != 1 || s.List[0] != (precredit.Entry{ID: 5, Share: 1000, Outstanding: 10}) {
		t.Errorf("%+v, %v", s, err)
	}
}
