// SPDX-License-Identifier: Apache-2.0

package pacer

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// edt is the pacer by earliest departure time: the data plane writes the departure time of a
// packet into skb->tstamp, and fq keeps the packet until then. It has no state per
// destination.
type edt struct {
	link netlink.Link
	own  bool
}

func (edt) Kind() Kind                             { return EDT }
func (e edt) OwnQdisc() bool                       { return e.own }
func (edt) Prepare() error                         { return nil }
func (edt) SetRate(uint32, uint64) (uint32, error) { return 0, nil }
func (edt) Backlog(uint32) (uint64, bool, error)   { return 0, false, nil }
func (edt) Release(uint32) error                   { return nil }
func (e edt) Check() (Condition, error)            { return Inspect(e.link, EDT, e.own, nil) }

// Repair implements Pacer. In place of an fq that was there before attach it sets up another one.
func (e edt) Repair() error {
	_, err := setupEDT(e.link)
	return err
}

// Limits of fq, in packets. A QP of rxe is one flow and has at most 64 packets in fq; the
// default of 100 packets per flow is too low for senders without such a limit.
const (
	fqLimit     = 100_000
	fqFlowLimit = 10_000
)

// setupEDT makes fq the root qdisc, or with several transmit queues mq with an
// fq on each. An existing fq is used as it is.
func setupEDT(l netlink.Link) (Pacer, error) {
	root, err := rootQdisc(l)
	if err != nil {
		return nil, err
	}
	if root != nil && root.Type() == "fq" && !isOurs(root) {
		return edt{l, false}, nil
	}
	if err := checkReplaceable(l); err != nil {
		return nil, err
	}
	queues := l.Attrs().NumTxQueues
	if queues <= 1 {
		if err := addFq(l, netlink.HANDLE_ROOT, netlink.MakeHandle(ourMajor, 0)); err != nil {
			return nil, err
		}
		return edt{l, true}, nil
	}
	mq := &netlink.GenericQdisc{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: l.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(ourMajor, 0),
	}, QdiscType: "mq"}
	if err := netlink.QdiscReplace(mq); err != nil {
		return nil, fmt.Errorf("%s: root qdisc mq: %w", l.Attrs().Name, err)
	}
	for i := 1; i <= queues; i++ {
		if err := addFq(l, netlink.MakeHandle(ourMajor, uint16(i)), 0); err != nil {
			_ = Restore(l)
			return nil, err
		}
	}
	return edt{l, true}, nil
}

func addFq(l netlink.Link, parent, handle uint32) error {
	fq := netlink.NewFq(netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Parent: parent, Handle: handle})
	fq.PacketLimit, fq.FlowPacketLimit = fqLimit, fqFlowLimit
	err := missing["fq"]
	if err == nil {
		err = netlink.QdiscReplace(fq)
	}
	if err != nil {
		return fmt.Errorf("%s: fq qdisc (kernel module sch_fq): %w", l.Attrs().Name, err)
	}
	return nil
}
