// SPDX-License-Identifier: Apache-2.0

package disorderbench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
)

// contender is a transport of the comparison.
type contender struct {
	name       string
	outOfOrder bool
	sack       bool
	payload    int // of a packet, if not the path MTU
}

var contend = []contender{
	{name: "ooo", outOfOrder: true},
	{name: "SACK", sack: true},
	{name: "go-back-N"},
	{name: "ooo 1392", outOfOrder: true, payload: 1392}, // what the MTU of 1500 has room for
}

// Indices of contend that the goals compare.
const (
	inOOO = iota
	inSACK
	inGBN
	inMTU // out-of-order mode with packets of the whole MTU
	contenders
)

// errStatus is wrapped by the error of a message that has failed: the queue pair has ended.
var errStatus = errors.New("a message has failed")

// op is a message whose consumer at the target is told.
func (c contender) op() verbs.Op {
	if c.outOfOrder {
		return verbs.OpWriteNotify
	}
	return verbs.OpWriteImm
}

// rtoExponent is the timeout of RC: 4.096 us times 2^11 are 8.4 ms. In out-of-order mode the engine has 8 ms.
const rtoExponent = 11

// slots are the messages that may be outstanding.
const slots = 512

// pair is a queue pair of each host. Messages go from host 0 to host 1. Each has a slot of the memory of
// both, and its first and last bytes tell which one it is.
type pair struct {
	contender
	devs   [2]*nic.Device
	pd     [2]verbs.PD
	cq     [2]verbs.CQ
	mem    [2][]byte
	mr     [2]verbs.MR
	qp     [2]verbs.QP
	size   int
	serial uint64
}

// connect makes a pair, and waits until both ends know what the other one understands.
func connect(ctx context.Context, n *network, c contender, size int) (_ *pair, err error) {
	p := &pair{contender: c, size: size}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if !c.outOfOrder { // which would not wait for the HELLO, so that the box might lose it
		if err := n.announceSACK(c.sack); err != nil {
			return nil, err
		}
	}
	for i, h := range n.hosts {
		d := h.Dev
		p.devs[i] = d
		if p.pd[i], err = d.AllocPD(); err != nil {
			return nil, err
		}
		p.mem[i] = make([]byte, slots*size)
		if p.mr[i], err = p.pd[i].RegMR(p.mem[i], engines.Access); err != nil {
			return nil, err
		}
		if p.cq[i], err = d.CreateCQ(4 * slots); err != nil {
			return nil, err
		}
		p.qp[i], err = p.pd[i].CreateQP(verbs.QPInit{
			Type: verbs.RC, SendCQ: p.cq[i], RecvCQ: p.cq[i], MaxSend: slots, MaxRecv: 2 * slots, OutOfOrder: c.outOfOrder, Payload: c.payload,
		})
		if err != nil {
			return nil, err
		}
	}
	err = engines.ConnectAttr(p.qp[0], p.qp[1], n.hosts[0].IPv4(), n.hosts[1].IPv4(), func(a *verbs.Attr) {
		a.PMTU, a.Timeout = pmtu, rtoExponent
	})
	if err != nil {
		return nil, err
	}
	for range 2 * slots {
		if err := p.qp[1].PostRecv(&verbs.RecvWR{}); err != nil {
			return nil, err
		}
	}
	return p, p.understand(ctx)
}

// understand sends messages until both ends have negotiated what the contender uses.
func (p *pair) understand(ctx context.Context) error {
	return until(ctx, p.name+": HELLO has told what the peer understands", func() (bool, error) {
		if err := p.post(0); err != nil {
			return false, err
		}
		for i := range p.cq {
			c, err := engines.PollOne(p.cq[i], 5*time.Second)
			if err == nil {
				err = p.check(i, &c)
			}
			if err != nil {
				return false, err
			}
		}
		for _, q := range p.qp {
			a, err := q.Query()
			if err != nil {
				return false, err
			}
			if !p.outOfOrder && a.Selective != p.sack {
				return false, nil
			}
		}
		return true, nil
	})
}

// post posts a message of a slot.
func (p *pair) post(slot int) error {
	p.serial++
	from := p.mem[0][slot*p.size:][:p.size]
	binary.NativeEndian.PutUint64(from, p.serial)
	binary.NativeEndian.PutUint64(from[p.size-8:], p.serial)
	off := uint64(slot * p.size)
	return p.qp[0].PostSend(&verbs.SendWR{
		ID: uint64(slot), Op: p.op(), Flags: verbs.Signaled, Imm: uint32(slot), RemoteAddr: p.mr[1].VA() + off, RKey: p.mr[1].RKey(),
		SGL: []verbs.SGE{{Addr: p.mr[0].VA() + off, Len: uint32(p.size), LKey: p.mr[0].LKey()}},
	})
}

// check looks at a completion of a side. At the target the message must be in memory.
func (p *pair) check(side int, c *verbs.Completion) error {
	if c.Status != verbs.StatusSuccess {
		return fmt.Errorf("%s: %w: %s", p.name, errStatus, c.Status)
	}
	if side == 0 {
		return nil
	}
	slot := int(c.Imm)
	from, to := p.mem[0][slot*p.size:][:p.size], p.mem[1][slot*p.size:][:p.size]
	for _, at := range []int{0, p.size - 8} {
		if binary.NativeEndian.Uint64(from[at:]) != binary.NativeEndian.Uint64(to[at:]) {
			return fmt.Errorf("%s: the consumer is told of a message that is not in memory", p.name)
		}
	}
	return p.qp[1].PostRecv(&verbs.RecvWR{})
}

// sent are the packets with data that host 0 has sent, and how many of them again.
func (p *pair) sent() (packets, again uint64) {
	for _, c := range p.devs[0].Counters() {
		switch c.Name {
		case "tx_data_pkts":
			packets = c.Value
		case "tx_retransmits":
			again = c.Value
		}
	}
	return packets, again
}

func (p *pair) close() error {
	var errs []error
	for i := range p.devs {
		if p.qp[i] != nil {
			errs = append(errs, p.qp[i].Destroy())
		}
		if p.cq[i] != nil {
			errs = append(errs, p.cq[i].Destroy())
		}
		if p.mr[i] != nil {
			errs = append(errs, p.mr[i].Deregister())
		}
		if p.pd[i] != nil {
			errs = append(errs, p.pd[i].Free())
		}
	}
	return errors.Join(errs...)
}
