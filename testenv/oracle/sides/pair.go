// SPDX-License-Identifier: Apache-2.0

package sides

import (
	"context"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

// Pair is the part of an oracle.QP that is the same for each queue pair with the attributes and
// states of package verbs.
type Pair struct {
	Q    verbs.Modifier
	Addr func(v6 bool) (netip.Addr, error) // own address
}

func (p Pair) ToInit(_ context.Context, a oracle.InitAttr) error {
	return p.modify(verbs.Attr{State: verbs.StateInit, Access: Rights(a.Rights), QKey: a.QKey})
}

func (p Pair) ToRTR(_ context.Context, a oracle.RTRAttr) error {
	attr := RTR(a)
	if a.Service != oracle.UD {
		src, err := p.Addr(a.Peer.Is6())
		if err != nil {
			return err
		}
		attr.AV.Src = src
	}
	return p.modify(attr)
}

func (p Pair) ToRTS(_ context.Context, a oracle.RTSAttr) error {
	return p.modify(RTS(a))
}

// modify sets the attributes that the step to a.State needs.
func (p Pair) modify(a verbs.Attr) error {
	return p.Q.Modify(a, verbs.RequiredMask(p.Q.Type(), a.State))
}

func (p Pair) To(_ context.Context, s oracle.State) error {
	return p.Q.Modify(verbs.Attr{State: States[s]}, verbs.MaskState)
}

func (p Pair) State(context.Context) (oracle.State, error) { return State(p.Q.State()) }
