// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/samples"
)

// forgedKind is a packet in the name of a peer to a lab.
type forgedKind struct {
	l     *lab
	from  samples.Peer
	wrong samples.Secret
}

// stamped gives a packet the token, or another one. In the name of a plain peer only control packets have any.
func (f forgedKind) stamped(d rocev2.Datagram) rocev2.Datagram {
	s := someStamp
	if d.Stamp != nil {
		s = *d.Stamp
	}
	if f.wrong == samples.Token {
		return stamped(d, s, tokenOf(d.Src)^1)
	}
	return stamped(d, s)
}

// sign sends packets that are signs of trouble, and reports whether all of them count as that, or any if one is
// refused.
func (f forgedKind) sign(packets ...rocev2.Datagram) bool {
	before := f.l.regs(peer4)
	for _, d := range packets {
		if f.from == samples.Stamping {
			d = f.stamped(d)
		}
		f.l.in(fromPeer(f.l.t, d))
	}
	after := f.l.regs(peer4)
	n := int(after.WinLoss + after.WinCe - before.WinLoss - before.WinCe)
	return n == len(packets) || f.wrong != samples.Nothing && n > 0
}

// Packets that ingress handles, in the name of a peer that this host sends to, need what the table says.
func TestForgedKinds(t *testing.T) {
	l := newLab(t)
	sock, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(sock) })
	const index = 5
	l.must(l.objs.Xsks.Put(uint32(index), uint32(sock)))
	l.must(l.objs.SteerTable.Put(uint32(rocev2.ControlQPN), bpf.Steer{XskBase: index, Queues: 1}))
	l.config(func(c *bpf.Config) { c.Steered, c.HelloRate = 1, 1e9 })
	last := []rocev2.PSN{5000, 20000, 0x7FF000, 0x400000} // of the queue pairs that this host has sent from

	for _, c := range []struct {
		kind string
		send func(f forgedKind) bool
	}{
		{"NAK, as a sign of loss", func(f forgedKind) bool {
			var naks []rocev2.Datagram
			for _, psn := range last {
				psns := []rocev2.PSN{psn, psn.Add(-4095)}
				if f.wrong == samples.Recent {
					psns = []rocev2.PSN{psn.Add(1), psn.Add(-4096)}
				}
				for _, p := range psns {
					d := ack(p)
					d.Syndrome = 0x60
					naks = append(naks, d)
				}
			}
			return f.sign(naks...)
		}},
		{"CNP", func(f forgedKind) bool {
			return f.sign(rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.CNP, DestQP: 0x999})
		}},
		{"HELLO", func(f forgedKind) bool {
			before := f.l.regs(peer4)
			verdict, _ := f.l.in(fromPeer(f.l.t, hello(false)))
			if f.l.regs(peer4) != before {
				f.l.t.Error("a HELLO has changed a register")
			}
			return verdict == xdpTX
		}},
		{"HELLO_ACK", func(f forgedKind) bool {
			off := uint64(0)
			if f.wrong == samples.Nonce {
				off = 1
			}
			before := f.l.regs(peer4)
			f.l.in(fromPeer(f.l.t, helloAck(false, off)))
			after := f.l.regs(peer4)
			return after.TxToken == ackToken && after.Caps == bpf.CapStamp|bpf.CapSACK || f.wrong != samples.Nothing && after != before
		}},
		{"ECHO", func(f forgedKind) bool {
			before := f.l.regs(peer4)
			f.l.in(fromPeer(f.l.t, f.stamped(echo(false, labStart-3_000_500, 700, 3_000_700))))
			return f.l.regs(peer4) != before
		}},
		{"RATE_LIMIT", func(f forgedKind) bool {
			before := f.l.regs(peer4)
			f.l.in(fromPeer(f.l.t, f.stamped(rateLimit(false, rocev2.RateLimitFields{Epoch: 9, RateBps: 64e3, LifeNs: 10e9}))))
			_, limit := f.l.limitOf(peer4)
			return limit || f.wrong != samples.Nothing && f.l.regs(peer4) != before
		}},
		{"CREDIT", func(f forgedKind) (took bool) {
			for _, op := range []rocev2.Opcode{rocev2.OpCreditGrant, rocev2.OpCreditReturn} {
				d := rocev2.Datagram{Src: peer4, Dst: us4, Opcode: op, DestQP: rocev2.ControlQPN, Credit: rocev2.CreditFields{Epoch: 3, Limit: 4096, Seq: 9}}
				verdict, _ := f.l.in(fromPeer(f.l.t, f.stamped(d)))
				took = took || verdict == xdpRedirect
			}
			return took
		}},
	} {
		samples.Try(t, c.kind, samples.Both, func(t *testing.T, from samples.Peer, wrong samples.Secret) (bool, []string) {
			l := l.with(t)
			_ = l.objs.RateLimits.Delete(bpf.KeyOf(peer4))
			l.know(peer4, func(d *bpf.DestRegs) {
				d.LastTxNs, d.LastRxNs = labStart, labStart
				for i, psn := range last {
					d.Flows[i] = bpf.SoftroceSrFlow{Psn: uint32(psn), Qpn: uint32(16 + i)}
				}
				if from == samples.Stamping {
					aware(d)
				}
			})
			took := c.send(forgedKind{l, from, wrong})
			var refused []string
			for name := range l.counters() {
				switch name {
				case "rx_unproven", "rx_token_wrong", "hello_ack_forged", "hello_limited":
					refused = append(refused, name)
				}
			}
			return took, refused
		})
	}
}
