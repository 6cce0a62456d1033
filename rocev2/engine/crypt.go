// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Encrypted queue pairs (S2.8, docs/program/encryption.md). Package seal has keys, counters and windows.
// A packet is sealed after its headers and data are in the frame and before the ICRC, in send. It is
// opened behind the ICRC check, before anything acts on it, in packet. A plain queue pair pays one comparison of
// egress.crypt with nil.

// CryptCounters count packets of encrypted queue pairs, and those that look like such packets.
type CryptCounters struct {
	Sealed, Opened                        uint64 // packets sent, and packets whose tag was right
	Refused                               uint64 // encrypted packets that were dropped, of all kinds that follow
	forged, replay, old, epoch, malformed uint64
	Plain                                 uint64 // plain packets to an encrypted queue pair, dropped
	sealedRefused, txExhausted            uint64
}

// keys are those of an encrypted queue pair.
type keys struct {
	*seal.End
	count *CryptCounters
}

// SetKeys has a queue pair of RC or UC, in RESET or INIT, take and send encrypted packets only. It ends with RESET. The
// path must have room for seal.Overhead bytes more in each packet, which Modify checks. count: counters of the queue pair.
// nil: those of the core.
func (x *QP) SetKeys(c *seal.End, count *CryptCounters) error {
	switch s := x.q.State(); {
	case x.dead:
		return ErrQPRemoved
	case s != verbs.StateReset && s != verbs.StateInit:
		return fmt.Errorf("nic: a queue pair in %s cannot be encrypted: give it keys in RESET or INIT", s)
	case x.crypt != nil:
		return errors.New("nic: the queue pair has keys already: reset it before it gets others")
	case x.q.Attr().PKey != 0:
		return fmt.Errorf("nic: the P_Key of an encrypted queue pair is %#x: set no other", seal.PKey)
	}
	if count == nil {
		count = &x.core.count.crypt
	}
	x.crypt, x.pkey = &keys{c, count}, seal.PKey
	return nil
}

// DropKeys takes SetKeys back, before the queue pair has left INIT.
func (x *QP) DropKeys() { x.crypt, x.pkey = nil, rocev2.DefaultPKey }

// checkCrypt judges attributes by what encryption needs: the P_Key, which marks encrypted packets, and
// room for what sealing adds.
func (x *QP) checkCrypt(a *verbs.Attr, mask verbs.AttrMask, path *Path) error {
	switch {
	case mask&verbs.MaskPKey != 0 && x.crypt != nil && a.PKey != 0:
		return fmt.Errorf("nic: the P_Key of an encrypted queue pair is %#x, not one of the application", seal.PKey)
	case mask&verbs.MaskPKey != 0 && MatchPKey(a.PKey, seal.PKey):
		return fmt.Errorf("nic: the P_Key %#x is for encrypted queue pairs (Encrypt)", a.PKey)
	case path == nil || x.crypt == nil || mask&verbs.MaskPMTU == 0:
		return nil
	}
	to := path.Current()
	mtu := min(to.MTU, x.core.dests.rails[0].mtu)
	if need := a.PMTU.Bytes() + rocev2.PMTUOverhead + seal.Overhead; need > mtu {
		return fmt.Errorf("nic: a PMTU of %d and encryption do not fit the path to %s, which has an MTU of %d: raise it to %d and open the device again, or choose a smaller PMTU",
			a.PMTU.Bytes(), to.Dst, mtu, need)
	}
	return nil
}

// sealRoom returns how many bytes sealing adds to each packet.
func (g *egress) sealRoom() int {
	if g.crypt != nil {
		return seal.Overhead
	}
	return 0
}

// payloadRoom returns how many bytes the payload of a packet takes in the frame, and prepares the headers of
// an encrypted one.
func (g *egress) payloadRoom(o *qp.Outbound) int {
	if o.Sealed = g.crypt != nil; o.Sealed {
		o.PKey = seal.PKey
	}
	return o.PayloadLen + g.sealRoom()
}

// fill puts the data of a packet into its place in the datagram, and seals it if the queue pair is encrypted.
// False: it must not be sent. Either its memory is gone, which the queue pair has handled, or the keys are used
// up: then it is lost.
func (t *transmitter) fill(g *egress, o *qp.Outbound, datagram, place []byte) bool {
	if g.crypt == nil {
		return o.Fill(place)
	}
	p := g.crypt.Sealer.Built(&o.Datagram, datagram, len(place))
	if !o.FillBy(seal.Plain(place), p) {
		return false
	}
	if p.Err() != nil {
		g.crypt.count.txExhausted++
		return false
	}
	g.crypt.count.Sealed++
	return true
}

// open opens a packet for an encrypted queue pair. False: it is refused and counted.
func (r *receiver) open(x *QP, p *rocev2.Packet) bool {
	c := x.crypt.count
	switch err := x.crypt.Opener.OpenPacket(int64(r.e.now), p); err {
	case nil:
		c.Opened++
		return true
	case seal.ErrReplay:
		c.replay++
	case seal.ErrOld:
		c.old++
	case seal.ErrEpoch:
		c.epoch++
	case seal.ErrForged, seal.ErrExhausted:
		c.forged++
	default:
		c.malformed++
	}
	c.Refused++
	return false
}

// wrongPKey counts a packet whose P_Key is not that of its queue pair. A CNP, which is never encrypted, is for the
// policy only (ingress): queue pairs ignore it.
func (c *Counters) wrongPKey(h rocev2.BTH, x *QP) {
	switch {
	case x.crypt != nil && h.Opcode() == rocev2.CNP:
		x.q.Config().Count.Ignored++
	case x.crypt != nil:
		x.crypt.count.Plain++
	case h.PKey() == seal.PKey:
		c.crypt.sealedRefused++
	default:
		c.rxBadPKey++
	}
}

// list names the counters.
func (c *CryptCounters) list() []verbs.Counter {
	return []verbs.Counter{
		{Name: "tx_encrypted", Value: c.Sealed, Text: "packets encrypted and sent"},
		{Name: "tx_keys_exhausted", Value: c.txExhausted, Text: "packets dropped because the keys of their queue pair are used up"},
		{Name: "rx_decrypted", Value: c.Opened, Text: "encrypted packets whose tag was right"},
		{Name: "rx_crypt_forged", Value: c.forged, Text: "encrypted packets with a wrong tag, dropped"},
		{Name: "rx_crypt_replay", Value: c.replay, Text: "encrypted packets received before, dropped"},
		{Name: "rx_crypt_old", Value: c.old, Text: "encrypted packets older than the replay window, dropped"},
		{Name: "rx_crypt_epoch", Value: c.epoch, Text: "encrypted packets of a key that is not in use, dropped"},
		{Name: "rx_crypt_malformed", Value: c.malformed, Text: "encrypted packets too short for a tag, or with a pad that is not zero, dropped"},
		{Name: "rx_crypt_plain", Value: c.Plain, Text: "plain packets to an encrypted queue pair, dropped"},
		{Name: "rx_crypt_unexpected", Value: c.sealedRefused, Text: "encrypted packets to a plain queue pair, dropped"},
	}
}
