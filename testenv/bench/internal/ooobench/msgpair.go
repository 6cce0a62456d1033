// SPDX-License-Identifier: Apache-2.0

package ooobench

// Pair is a queue pair of each of two hosts, and messages from one to the other that can be told
// apart at the target.

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
)

// Slots are the messages that may be outstanding.
const Slots = 512

// PMTU is that of the pair.
const PMTU = rocev2.PMTU1024

// rtoExponent is the timeout of RC: 4.096 us times 2^11 are 8.4 ms. In out-of-order mode the engine has 8 ms.
const rtoExponent = 11

// Errors of Check.
var (
	ErrStatus = errors.New("a message has failed")                 // the queue pair has ended
	ErrEarly  = errors.New("a message that is not in memory")      // its consumer was notified of it
	ErrTwice  = errors.New("a message was notified a second time") // or not posted
)

// Config is what a pair is.
type Config struct {
	Name       string
	OutOfOrder bool
	Payload    int                   // payload of a packet in out-of-order mode, 0 = PMTU
	Size       int                   // bytes of a message
	Rails      []verbs.AddressVector // addresses of each host on its further interface, if that is to be used
}

// Pair is a queue pair of each host. Messages go from host 0 to host 1. Each has a slot of the memory of
// both, and its first and last bytes have its serial number.
type Pair struct {
	Config
	CQ [2]verbs.CQ
	QP [2]verbs.QP

	devs   [2]*nic.Device
	pd     [2]verbs.PD
	mem    [2][]byte
	mr     [2]verbs.MR
	serial uint64
}

// New connects a pair.
func New(hosts []*engines.Host, c Config) (_ *Pair, err error) {
	p := &Pair{Config: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	for i, h := range hosts {
		d := h.Dev
		p.devs[i] = d
		if p.pd[i], err = d.AllocPD(); err != nil {
			return nil, err
		}
		p.mem[i] = make([]byte, Slots*c.Size)
		if p.mr[i], err = p.pd[i].RegMR(p.mem[i], engines.Access); err != nil {
			return nil, err
		}
		if p.CQ[i], err = d.CreateCQ(4 * Slots); err != nil {
			return nil, err
		}
		p.QP[i], err = p.pd[i].CreateQP(verbs.QPInit{
			Type: verbs.RC, SendCQ: p.CQ[i], RecvCQ: p.CQ[i], MaxSend: Slots, MaxRecv: 2 * Slots, OutOfOrder: c.OutOfOrder, Payload: c.Payload,
		})
		if err != nil {
			return nil, err
		}
		if len(c.Rails) > 0 {
			if err := p.QP[i].(verbs.RailQP).UseRails(c.Rails[1-i]); err != nil {
				return nil, err
			}
		}
	}
	err = engines.ConnectAttr(p.QP[0], p.QP[1], hosts[0].IPv4(), hosts[1].IPv4(), func(a *verbs.Attr) {
		a.PMTU, a.Timeout = PMTU, rtoExponent
	})
	if err != nil {
		return nil, err
	}
	for range 2 * Slots {
		if err := p.QP[1].PostRecv(&verbs.RecvWR{}); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// op is a message whose consumer at the target is notified.
func (p *Pair) op() verbs.Op {
	if p.OutOfOrder {
		return verbs.OpWriteNotify
	}
	return verbs.OpWriteImm
}

// Post posts a message of a slot. The immediate has the slot and the low bits of the serial number.
func (p *Pair) Post(slot int) error {
	p.serial++
	from := p.mem[0][slot*p.Size:][:p.Size]
	binary.NativeEndian.PutUint64(from, p.serial)
	binary.NativeEndian.PutUint64(from[p.Size-8:], p.serial)
	off := uint64(slot * p.Size)
	return p.QP[0].PostSend(&verbs.SendWR{
		ID: uint64(slot), Op: p.op(), Flags: verbs.Signaled, Imm: uint32(p.serial*Slots) | uint32(slot), RemoteAddr: p.mr[1].VA() + off, RKey: p.mr[1].RKey(),
		SGL: []verbs.SGE{{Addr: p.mr[0].VA() + off, Len: uint32(p.Size), LKey: p.mr[0].LKey()}},
	})
}

// Check looks at a completion of a side and returns its slot. At the target the message must be in memory.
// A notification of a message whose slot another one has taken is the second one.
func (p *Pair) Check(side int, c *verbs.Completion) (slot int, err error) {
	if c.Status != verbs.StatusSuccess {
		return 0, fmt.Errorf("%s: %w: %w", p.Name, ErrStatus, c.Status)
	}
	if side == 0 {
		return int(c.WRID), nil
	}
	slot = int(c.Imm % Slots)
	from, to := p.mem[0][slot*p.Size:][:p.Size], p.mem[1][slot*p.Size:][:p.Size]
	if uint32(binary.NativeEndian.Uint64(from)*Slots) != c.Imm-uint32(slot) {
		return 0, fmt.Errorf("%s: %w: slot %d", p.Name, ErrTwice, slot)
	}
	for _, at := range []int{0, p.Size - 8} {
		if binary.NativeEndian.Uint64(from[at:]) != binary.NativeEndian.Uint64(to[at:]) {
			return 0, fmt.Errorf("%s: the consumer is notified of %w", p.Name, ErrEarly)
		}
	}
	return slot, p.QP[1].PostRecv(&verbs.RecvWR{})
}

// Sent are the packets with data that host 0 has sent, and how many of them again.
func (p *Pair) Sent() (packets, again uint64) {
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

// Close takes the pair back.
func (p *Pair) Close() error {
	var errs []error
	for i := range p.devs {
		if p.QP[i] != nil {
			errs = append(errs, p.QP[i].Destroy())
		}
		if p.CQ[i] != nil {
			errs = append(errs, p.CQ[i].Destroy())
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
