// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// PreCredit are the parameters of pre-credit (S5) of a card: what it grants, and how it uses what it is granted.
type PreCredit struct {
	Receiver precredit.Params
	Sender   precredit.SenderParams
}

// PlanPreCredit gives parameters for a card behind a link of linkBps bits per second whose nodes are rttNs
// away. budget is what all of them together may send unasked, packet the payload of a full packet,
// both in bytes.
func PlanPreCredit(linkBps uint64, rttNs int64, budget, packet uint32) PreCredit {
	return PreCredit{
		Receiver: precredit.Plan(linkBps, rttNs, budget, packet, 0),
		Sender: precredit.SenderParams{
			LinkBps: linkBps, RTTNs: rttNs, BDPBytes: precredit.BDP(linkBps, rttNs), MaxWaitNs: 100 * rttNs,
			SmallBias: precredit.DefaultSmallBias, AgingStep: precredit.DefaultAgingStep,
		},
	}
}

// Validate returns an error that says what is wrong with the parameters, and what to do.
func (c *PreCredit) Validate() error {
	if err := c.Receiver.Validate(); err != nil {
		return err
	}
	return c.Sender.Validate()
}

// ErrPreCreditMissing is returned by EnablePreCredit if the card does not use pre-credit although the parameters are
// valid.
var ErrPreCreditMissing = errors.New("the card has the registers of pre-credit, but does not use it: use another build of the card")

// EnablePreCredit has a card use pre-credit with these parameters, also if it uses others already. epoch
// numbers the accounts of its senders: it must be beyond those before the card's last reset, as
// the Unix time in seconds is. 0 is that time.
func EnablePreCredit(c *hwoffload.Card, config PreCredit, epoch uint32) error {
	if err := config.Validate(); err != nil {
		return err
	}
	if epoch == 0 {
		epoch = uint32(time.Now().Unix())
	}
	e, r, s := regs.PrecreditOf(c), &config.Receiver, &config.Sender
	e.SetControl(0)
	e.SetEpoch(epoch)
	e.SetBudgetBytes(r.BufferBytes)
	e.SetShareBytes(r.ShareBytes)
	e.SetLeastBytes(r.MinBytes)
	e.SetLifeNs(uint64(r.LifeNs))
	e.SetDelayNs(uint64(r.DelayNs))
	e.SetRetryNs(uint64(r.RetryNs))
	e.SetLinkBps(s.LinkBps)
	e.SetRttNs(uint64(s.RTTNs))
	e.SetBdpBytes(s.BDPBytes)
	e.SetFlowBytes(s.FlowBytes)
	e.SetMaxWaitNs(uint64(s.MaxWaitNs))
	e.SetSmallBias(s.SmallBias)
	e.SetAgingStep(s.AgingStep)
	e.SetBound(regs.PrecreditBound(0).WithBoundFlows(uint32(s.Bound)))
	e.SetControl(regs.PrecreditControl(0).WithEnable(true))
	active := e.Status().Active()
	if err := c.Err(); err != nil {
		return err
	}
	if !active {
		return ErrPreCreditMissing
	}
	return nil
}

// DisablePreCredit has a card not use pre-credit. It gives back what it has not used, and recalls what it
// granted.
func DisablePreCredit(c *hwoffload.Card) error {
	e := regs.PrecreditOf(c)
	e.SetControl(0)
	_ = e.Status() // the write has arrived
	return c.Err()
}

// PreCreditActive reports whether a card uses pre-credit.
func PreCreditActive(c *hwoffload.Card) (bool, error) {
	active := regs.PrecreditOf(c).Status().Active()
	return active, c.Err()
}

// ReadPreCredit reads the parameters of a card.
func ReadPreCredit(c *hwoffload.Card) (PreCredit, error) {
	e := regs.PrecreditOf(c)
	config := PreCredit{
		Receiver: precredit.Params{
			BufferBytes: e.BudgetBytes(), ShareBytes: e.ShareBytes(), MinBytes: e.LeastBytes(),
			LifeNs: int64(e.LifeNs()), DelayNs: int64(e.DelayNs()), RetryNs: int64(e.RetryNs()),
		},
		Sender: precredit.SenderParams{
			LinkBps: e.LinkBps(), RTTNs: int64(e.RttNs()), BDPBytes: e.BdpBytes(), FlowBytes: e.FlowBytes(), MaxWaitNs: int64(e.MaxWaitNs()),
			SmallBias: e.SmallBias(), AgingStep: e.AgingStep(), Bound: precredit.Bound(e.Bound().BoundFlows()),
		},
	}
	return config, c.Err()
}

// Senders is the list of S5.2: the largest share first, and of equal shares the oldest. The ID of a
// sender is the number of its node.
type Senders struct {
	List        []precredit.Entry
	Free        uint32 // part of the budget that is no sender's share, bytes
	Outstanding uint32 // part of the budget that is given away, bytes
}

// tries is how often ReadSenders reads a list that changes meanwhile.
const tries = 100

// ErrSendersBusy is returned by ReadSenders if the list changed each time that it was read.
var ErrSendersBusy = errors.New("the list of senders changes faster than it can be read: try again, or read it by a faster connection to the card")

// ReadSenders reads the list, as it was at one moment. One goroutine at a time may do so, since the
// card shows a part of the list that the reader selects.
func ReadSenders(c *hwoffload.Card) (s Senders, err error) {
	e := regs.PrecreditOf(c)
	defer e.SetListFirst(0)
	for range tries {
		e.SetListFirst(0)
		before := e.ListChanges()
		s = Senders{Free: e.FreeBytes(), Outstanding: e.OutstandingBytes()}
		n := e.Senders()
		if err := c.Err(); err != nil {
			return Senders{}, err
		}
		if n > regs.DestCount {
			return Senders{}, fmt.Errorf("card: a list of %d senders, but there are %d nodes: use a program and a card of the same version", n, regs.DestCount)
		}
		for uint32(len(s.List)) < n {
			i := len(s.List) % regs.PrecreditListNodeCount
			if i == 0 && len(s.List) > 0 {
				e.SetListFirst(uint32(len(s.List)))
			}
			s.List = append(s.List, precredit.Entry{ID: precredit.SenderID(e.ListNode(i)), Share: e.ListShare(i), Outstanding: e.ListOutstanding(i)})
		}
		after := e.ListChanges()
		if err := c.Err(); err != nil {
			return Senders{}, err
		}
		if after == before {
			return s, nil
		}
	}
	return Senders{}, fmt.Errorf("card: %w", ErrSendersBusy)
}
