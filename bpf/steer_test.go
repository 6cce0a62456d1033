// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
)

// A packet to a QPN of the engine is redirected to its socket, with what ingress
// writes in front of it. The sockets of this test are real, but bound to no queue:
// what arrives in a bound one is tested where the engine's rings are.
func TestSteer(t *testing.T) {
	const qpn, index = 17, 3
	l := newLab(t)
	sock, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(sock) })
	if err := l.objs.Xsks.Put(uint32(index), uint32(sock)); err != nil {
		t.Fatal(err)
	}
	steer := func(s bpf.Steer) {
		t.Helper()
		if err := l.objs.SteerTable.Put(uint32(qpn), s); err != nil {
			t.Fatal(err)
		}
	}
	steer(bpf.Steer{XskBase: index, Queues: 1})
	l.config(func(c *bpf.Config) { c.Steered = 1 })
	l.know(peer4)
	l.know(peer6)

	ce := write(64)
	ce.TOS = 3
	full := rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampCredit, T1: labStart - 5, Credit: 7, CreditSeq: 8}
	big := write(8000)
	other := write(64)
	other.DestQP++

	for _, c := range []struct {
		name string
		in   rocev2.Datagram
		meta bpf.RxMeta
	}{
		{"stamped", stamped(write(64), full), bpf.RxMeta{Flags: full.Flags, T1Ns: labStart - 5, T2Ns: labStart, Credit: 7, CreditSeq: 8, Proven: 1}},
		{"stamped, IPv6", stamped(over6(write(64)), full), bpf.RxMeta{Flags: full.Flags, T1Ns: labStart - 5, T2Ns: labStart, Credit: 7, CreditSeq: 8, Proven: 1}},
		{"another token, CE", stamped(ce, full, 1), bpf.RxMeta{T1Ns: labStart - 5, T2Ns: labStart, Credit: 7, CreditSeq: 8}},
		{"unstamped", write(64), bpf.RxMeta{T2Ns: labStart}},
		{"unstamped, CE", ce, bpf.RxMeta{T2Ns: labStart, Ce: 1}},
		{"several buffers", stamped(big, full), bpf.RxMeta{Flags: full.Flags, T1Ns: labStart - 5, T2Ns: labStart, Credit: 7, CreditSeq: 8, Proven: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.t = t
			verdict, out := l.in(fromPeer(t, c.in))
			if verdict != xdpRedirect {
				t.Fatalf("verdict %d", verdict)
			}
			plain := c.in
			plain.Stamp = nil
			c.meta.Magic = bpf.MetaMagic
			var meta bytes.Buffer
			if err := binary.Write(&meta, binary.NativeEndian, &c.meta); err != nil {
				t.Fatal(err)
			}
			want := append(meta.Bytes(), fromPeer(t, plain)...)
			if in := fromPeer(t, c.in); len(in) > 4096 { // the option stays, as padding
				want = append(want, in[len(in)-rocev2.StampLen:]...)
			}
			if !bytes.Equal(out, want) {
				t.Errorf("%d bytes, want %d\n got %x\nwant %x", len(out), len(want), out[:min(len(out), 120)], want[:min(len(want), 120)])
			}
			if n := l.counters()["rx_steered"]; n != 1 {
				t.Errorf("counted %d", n)
			}
		})
	}
	l.t = t

	if verdict, _ := l.in(fromPeer(t, other)); verdict != xdpPass {
		t.Errorf("a QPN that is not the engine's: verdict %d", verdict)
	}
	l.wantCounters("rx_unstamped")
	for name, s := range map[string]bpf.Steer{
		"no socket at this index":         {XskBase: index + 1, Queues: 1},
		"no socket for the receive queue": {XskBase: index, Queues: 0},
	} {
		steer(s)
		if verdict, out := l.in(fromPeer(t, write(64))); verdict != xdpPass || !bytes.HasSuffix(out, fromPeer(t, write(64))) {
			t.Errorf("%s: verdict %d", name, verdict)
		}
		l.wantCounters("rx_unstamped", "rx_steer_missed")
	}
	l.config(func(c *bpf.Config) { c.Steered = 0 })
	if verdict, _ := l.in(fromPeer(t, write(64))); verdict != xdpPass {
		t.Errorf("nothing steered: verdict %d", verdict)
	}
	l.wantCounters("rx_unstamped")
}

// CREDIT_GRANT and CREDIT_RETURN go to the engine that has steered the control number
// to itself; packets of another length, or without a socket, are dropped.
func TestSteerCredit(t *testing.T) {
	const index = 5
	l := newLab(t)
	sock, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(sock) })
	if err := l.objs.Xsks.Put(uint32(index), uint32(sock)); err != nil {
		t.Fatal(err)
	}
	message := func(op rocev2.Opcode, v6 bool) rocev2.Datagram {
		d := rocev2.Datagram{Src: peer4, Dst: us4, Opcode: op, DestQP: rocev2.ControlQPN,
			Credit: rocev2.CreditFields{Epoch: 3, Limit: 4096, Seq: 9}, Stamp: &rocev2.Stamp{Flags: rocev2.StampT1, Token: tokenOf(peer4), T1: labStart - 5}}
		if v6 {
			d = over6(d)
		}
		return d
	}
	unstamped := message(rocev2.OpCreditGrant, false)
	unstamped.Stamp = nil
	here, elsewhere := &bpf.Steer{XskBase: index, Queues: 1}, &bpf.Steer{XskBase: index + 1, Queues: 1}
	for _, c := range []struct {
		name    string
		steer   *bpf.Steer // steering of the control number
		in      rocev2.Datagram
		verdict uint32
		count   string
	}{
		{"grant", here, message(rocev2.OpCreditGrant, false), xdpRedirect, "rx_steered"},
		{"grant, IPv6", here, message(rocev2.OpCreditGrant, true), xdpRedirect, "rx_steered"},
		{"return", here, message(rocev2.OpCreditReturn, false), xdpRedirect, "rx_steered"},
		{"another token", here, stamped(message(rocev2.OpCreditGrant, false), someStamp, 1), xdpDrop, "rx_token_wrong"},
		{"without the option", here, unstamped, xdpDrop, "control_malformed"},
		{"no socket", elsewhere, message(rocev2.OpCreditGrant, false), xdpDrop, "rx_steer_missed"},
		{"an engine without pre-credit", nil, message(rocev2.OpCreditReturn, false), xdpDrop, "control_unknown"},
		{"HELLO all the same", here, hello(false), xdpTX, "hello_answered"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			l.know(peer4, aware)
			l.know(peer6, aware)
			l.config(func(cfg *bpf.Config) { cfg.Steered = 1 })
			if c.steer != nil {
				if err := l.objs.SteerTable.Put(uint32(rocev2.ControlQPN), *c.steer); err != nil {
					t.Fatal(err)
				}
			} else if err := l.objs.SteerTable.Delete(uint32(rocev2.ControlQPN)); err != nil {
				t.Fatal(err)
			}
			in := fromPeer(t, c.in)
			verdict, out := l.in(in)
			if verdict != c.verdict {
				t.Errorf("verdict %d, want %d", verdict, c.verdict)
			}
			if verdict == xdpRedirect && !bytes.HasSuffix(out, in) {
				t.Errorf("changed:\n got %x\nwant %x", out, in)
			}
			l.wantCounters(c.count)
		})
	}
}
