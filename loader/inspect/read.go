// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/pacer"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

// Read reads what is in force, except Qdisc and Silent, which need the destinations.
func Read(a *loader.Attachment, ifname string) *Facts {
	f := &Facts{Interface: ifname, Egress: a.State.Egress}
	note := func(err error) {
		if err != nil {
			f.Errors = append(f.Errors, err)
		}
	}
	var err error
	f.XDP, err = a.Ingress()
	note(err)
	if f.TC, err = a.Egress(); err != nil {
		f.TC.Ours = true // not known
		note(err)
	}
	f.LostPins, err = a.LostPins()
	note(err)
	if err := a.CheckState(); errors.Is(err, loader.ErrStateLost) {
		f.State = err
	} else {
		note(err)
	}
	if f.Sockets = a.EngineQueues(); f.Sockets > 0 {
		f.Queues, _ = xsk.Queues(ifname)
	}
	return f
}

// confirm is the time between two readings of the qdiscs.
const confirm = 50 * time.Millisecond

// Inspect compares once, for a process that is not the agent.
func Inspect(a *loader.Attachment, ifname string) ([]Finding, error) {
	f := Read(a, ifname)
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	// The agent changes destinations and classes meanwhile. What is missing twice was removed.
	for i := range 3 {
		if i > 0 {
			time.Sleep(confirm)
		}
		var classes []uint32
		f.Silent = nil
		now := loader.Monotonic() + a.State.Clock.Offset()
		err := a.EachRow(func(r loader.Row) {
			if r.Regs.ClassId != 0 {
				classes = append(classes, r.Regs.ClassId)
			}
			if silent(&r.Regs, now) {
				f.Silent = append(f.Silent, Silent{r.Addr, r.Regs.TxPackets})
			}
		})
		if err != nil {
			return nil, err
		}
		dev, err := a.Device()
		if err == nil {
			f.Qdisc, err = pacer.Inspect(dev, a.State.Pacer, a.State.OwnQdisc, classes)
		}
		if err != nil {
			f.Errors = append(f.Errors, err)
			break
		}
		if !f.Qdisc.Damaged() {
			break
		}
	}
	if cfg.Pacer == bpf.PacerNone {
		f.Silent = nil // nothing is decided
	}
	slices.SortFunc(f.Silent, func(x, y Silent) int { return cmp.Compare(y.Packets, x.Packets) })
	return Compare(f), nil
}

const (
	silentPackets = 1000             // as many packets have feedback, unless nothing comes back
	silentRecent  = 10 * time.Second // a destination that is used now
)

// silent reports whether a destination has data now and has never had feedback. now is on the
// clock of the stamps.
func silent(d *bpf.DestRegs, now uint64) bool {
	return d.TxPackets >= silentPackets && now < d.LastTxNs+uint64(silentRecent) &&
		d.Policy.Decisions == 0 && d.RttNs == 0 && d.LastEchoT1Ns == 0 && d.Policy.BaseRttNs == 0
}
