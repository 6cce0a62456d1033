// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/loader"
)

// Limits are the limits in force of an interface (S1.8, S4.5).
type Limits struct {
	Sending   []SendLimit    `json:"sending"`            // limits by peers, of the data that this host sends to them
	Receiving []ReceiveLimit `json:"receiving"`          // limits by this host, of the data that peers send to it
	Receiver  *PriorityState `json:"receiver,omitempty"` // division of this host's link among them
}

// SendLimit is what a peer lets this host send.
type SendLimit struct {
	Peer   netip.Addr `json:"peer"`
	Bps    uint64     `json:"bps"`
	LifeNs uint64     `json:"life_ns"` // time that is left
}

// ReceiveLimit is what this host lets a peer send.
type ReceiveLimit struct {
	Peer           netip.Addr `json:"peer"`
	Bps            uint64     `json:"bps"` // 0: not limited any more
	DroppedPackets uint64     `json:"dropped_packets"`
	DroppedBytes   uint64     `json:"dropped_bytes"`
}

// limitsOf returns the limits at a time, nil if there are none.
func limitsOf(in *loader.Limits, now uint64) *Limits {
	x := &Limits{Sending: []SendLimit{}, Receiving: []ReceiveLimit{}, Receiver: stateOf(&in.Now)}
	for key, l := range in.Sending {
		if l.UntilNs > now {
			x.Sending = append(x.Sending, SendLimit{bpf.AddrOf(key), l.RateBps, l.UntilNs - now})
		}
	}
	for key, c := range in.Dropped {
		r := ReceiveLimit{Peer: bpf.AddrOf(key), DroppedPackets: c.DroppedPackets, DroppedBytes: c.DroppedBytes}
		if l := in.Receiving[key]; l.UntilNs > now {
			r.Bps = l.LimitBps
		}
		if r.Bps != 0 || r.DroppedPackets != 0 {
			x.Receiving = append(x.Receiving, r)
		}
	}
	if len(x.Sending)+len(x.Receiving) == 0 && x.Receiver == nil {
		return nil
	}
	slices.SortFunc(x.Sending, func(a, b SendLimit) int { return cmp.Or(cmp.Compare(a.Bps, b.Bps), a.Peer.Compare(b.Peer)) })
	slices.SortFunc(x.Receiving, func(a, b ReceiveLimit) int {
		return cmp.Or(cmp.Compare(b.DroppedPackets, a.DroppedPackets), cmp.Compare(b.Bps, a.Bps), a.Peer.Compare(b.Peer))
	})
	return x
}

// shownLimits is how many peers a line of `status` names; `status --json` has all.
const shownLimits = 4

// lines are the lines of `status`.
func (x *Limits) lines() (lines [][2]string) {
	for i, l := range x.Sending {
		if i == shownLimits {
			lines = append(lines, [2]string{"limited by", fmt.Sprintf("%d more", len(x.Sending)-i)})
			break
		}
		lines = append(lines, [2]string{"limited by", fmt.Sprintf("%s to %sbit/s for the next %s", l.Peer, cli.Rate(l.Bps), cli.Nanos(int64(l.LifeNs)))})
	}
	if x.Receiver != nil {
		lines = append(lines, [2]string{"receives", x.Receiver.String()})
	}
	for i, l := range x.Receiving {
		if i == shownLimits {
			lines = append(lines, [2]string{"limits", fmt.Sprintf("%d more", len(x.Receiving)-i)})
			break
		}
		text := fmt.Sprintf("%s to %sbit/s", l.Peer, cli.Rate(l.Bps))
		if l.Bps == 0 {
			text = fmt.Sprintf("%s no more", l.Peer)
		}
		if l.DroppedPackets != 0 {
			text += fmt.Sprintf(", %d packets above it dropped", l.DroppedPackets)
		}
		lines = append(lines, [2]string{"limits", text})
	}
	return lines
}
