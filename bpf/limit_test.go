// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
)

// rateLimit is a RATE_LIMIT of the peer.
func rateLimit(v6 bool, f rocev2.RateLimitFields) rocev2.Datagram {
	d := rocev2.Datagram{Src: peer4, Dst: us4, IPID: 1, Opcode: rocev2.OpRateLimit, DestQP: rocev2.ControlQPN, RateLimit: f}
	if v6 {
		d = over6(d)
	}
	return stamped(d, rocev2.Stamp{Flags: rocev2.StampT1, T1: 77})
}

// limitOf returns what the peer lets this host send, and whether it has said so.
func (l *lab) limitOf(peer netip.Addr) (v bpf.RateLimit, found bool) {
	l.t.Helper()
	return v, l.objs.RateLimits.Lookup(bpf.KeyOf(peer), &v) == nil
}

func (l *lab) limitWords() (w bpf.LimitWords) {
	l.t.Helper()
	l.must(l.objs.LimitState.Lookup(uint32(0), &w))
	return w
}

// A RATE_LIMIT of a known peer with its token becomes the limit of the peer; nothing else does.
func TestRateLimit(t *testing.T) {
	const now = labStart
	const second = 1_000_000_000
	l := newLab(t)
	l.at(now)
	limit := func(epoch uint32, rate, life uint64) rocev2.RateLimitFields {
		return rocev2.RateLimitFields{Epoch: epoch, RateBps: rate, LifeNs: life}
	}
	had := bpf.RateLimit{RateBps: 9e6, UntilNs: now + 5, Epoch: 7, Received: 3}
	for _, v6 := range []bool{false, true} {
		packet := func(f rocev2.RateLimitFields) func(*testing.T) []byte {
			return func(t *testing.T) []byte { return fromPeer(t, rateLimit(v6, f)) }
		}
		bent := func(at int) func(*testing.T) []byte { // a bit of the body, counted from the ICRC back
			return func(t *testing.T) []byte {
				f := packet(limit(8, 30e6, second))(t)
				f[len(f)-rocev2.StampLen-rocev2.ICRCLen-rocev2.RateLimitLen+at] ^= 2
				return f
			}
		}
		for _, c := range []struct {
			name  string
			frame func(*testing.T) []byte
			had   *bpf.RateLimit
			count string
			want  bpf.RateLimit // zero: none
		}{
			{"the first", packet(limit(7, 30e6, second)), nil, "rate_limit", bpf.RateLimit{RateBps: 30e6, UntilNs: now + second, Epoch: 7, Received: 1}},
			{"a later epoch", packet(limit(8, 30e6, second)), &had, "rate_limit", bpf.RateLimit{RateBps: 30e6, UntilNs: now + second, Epoch: 8, Received: 4}},
			{"the same epoch", packet(limit(7, 30e6, second)), &had, "rate_limit_old", had},
			{"an earlier epoch", packet(limit(6, 30e6, second)), &had, "rate_limit_old", had},
			{"an earlier epoch, modulo 2^32", packet(limit(7+1<<31, 30e6, second)), &had, "rate_limit_old", had},
			{"a later epoch, modulo 2^32", packet(limit(6+1<<31, 30e6, second)), &had, "rate_limit", bpf.RateLimit{RateBps: 30e6, UntilNs: now + second, Epoch: 6 + 1<<31, Received: 4}},
			{"the end", packet(limit(8, 30e6, 0)), &had, "rate_limit", bpf.RateLimit{RateBps: 30e6, UntilNs: now, Epoch: 8, Received: 4}},
			{"the slowest", packet(limit(8, 1, second)), &had, "rate_limit", bpf.RateLimit{RateBps: 64e3, UntilNs: now + second, Epoch: 8, Received: 4}},
			{"the longest", packet(limit(8, 30e6, 1<<64-1)), &had, "rate_limit", bpf.RateLimit{RateBps: 30e6, UntilNs: now + 10*second, Epoch: 8, Received: 4}},
			{"no rate", packet(limit(8, 0, second)), &had, "control_malformed", had},
			{"another version", bent(1), &had, "control_malformed", had},
			{"a wrong ICRC", bent(12), &had, "control_bad_icrc", had},
			{"without the option", func(t *testing.T) []byte {
				d := rateLimit(v6, limit(8, 30e6, second))
				d.Stamp = nil
				return fromPeer(t, d)
			}, &had, "control_malformed", had},
			{"another token", func(t *testing.T) []byte {
				d := rateLimit(v6, limit(8, 30e6, second))
				return fromPeer(t, stamped(d, *d.Stamp, 1))
			}, &had, "rx_token_wrong", had},
		} {
			t.Run(fmt.Sprintf("v6=%v/%s", v6, c.name), func(t *testing.T) {
				l := l.with(t)
				peer := peerOf(v6)
				l.know(peer, aware)
				_ = l.objs.RateLimits.Delete(bpf.KeyOf(peer))
				if c.had != nil {
					l.must(l.objs.RateLimits.Put(bpf.KeyOf(peer), c.had))
				}
				before := l.limitWords()
				if verdict, _ := l.in(c.frame(t)); verdict != xdpDrop {
					t.Errorf("verdict %d", verdict)
				}
				l.wantCounters(c.count)
				if got, _ := l.limitOf(peer); got != c.want {
					t.Errorf("%+v, want %+v", got, c.want)
				}
				accepted := c.count == "rate_limit"
				if changed := l.limitWords().Received != before.Received; changed != accepted {
					t.Errorf("the agent reads the limits: %v", changed)
				}
				var k bpf.DestKey
				if active := l.objs.Active.LookupAndDelete(nil, &k) == nil; active != accepted {
					t.Errorf("on the agent's list: %v", active)
				}
				if d := l.regs(peer); d.RxPackets != 0 || d.PeerT1Ns != 0 {
					t.Errorf("taken for data: %+v", d)
				}
				l.wantNoEvent()
			})
		}
	}
}

// A host without an entry cannot limit this one, and its packet is not even checked.
func TestRateLimitOfUnknownHost(t *testing.T) {
	l := newLab(t)
	for _, v6 := range []bool{false, true} {
		f := fromPeer(t, rateLimit(v6, rocev2.RateLimitFields{Epoch: 1, RateBps: 30e6, LifeNs: 1e9}))
		f[len(f)-rocev2.StampLen-1] ^= 1 // its ICRC is not computed
		if verdict, _ := l.in(f); verdict != xdpDrop {
			t.Errorf("verdict %d", verdict)
		}
		l.wantCounters("rate_limit_unknown")
		if v, found := l.limitOf(peerOf(v6)); found {
			t.Errorf("%+v", v)
		}
	}
	if n := l.entries(); n != 0 {
		t.Errorf("%d entries", n)
	}
}

// A peer that was attached again has another token and begins with new epochs.
func TestRateLimitEndsWithTheToken(t *testing.T) {
	l := newLab(t)
	had := bpf.RateLimit{RateBps: 9e6, UntilNs: 1 << 60, Epoch: 7}
	for _, token := range []uint64{ackToken, ackToken + 1} {
		l.know(peer4, aware, func(d *bpf.DestRegs) { d.TxToken = token })
		l.must(l.objs.RateLimits.Put(bpf.KeyOf(peer4), &had))
		ack := helloAck(false, 0)
		ack.Hello.Token = ackToken
		l.in(fromPeer(t, ack))
		if _, found := l.limitOf(peer4); found != (token == ackToken) {
			t.Errorf("token %d replaced by %d: the limit stays: %v", token, uint64(ackToken), found)
		}
		l.counters()
	}
}

// The agent's RATE_LIMIT leaves with T1 and the token.
func TestRateLimitEgress(t *testing.T) {
	l := newLab(t)
	l.at(labStart)
	for _, v6 := range []bool{false, true} {
		src, dst := us4, peer4
		if v6 {
			src, dst = us6, peer6
		}
		b := make([]byte, rocev2.MaxHelloLen)
		n, err := rocev2.BuildRateLimit(b, src, dst, rocev2.RateLimitFields{Epoch: 3, RateBps: 8e6, LifeNs: 5})
		if err != nil {
			t.Fatal(err)
		}
		l.know(dst, aware)
		_, out := l.out(ethernet(peerMAC, usMAC, b[:n]))
		if s := stampOf(t, out); s.T1 != labStart || s.Token != tokenOf(dst) {
			t.Errorf("stamp %+v", s)
		}
		l.wantCounters("rate_limit_sent")
		if d := l.regs(dst); d.TxPackets != 0 {
			t.Errorf("taken for data: %+v", d)
		}
	}
}

// What arrives above the limit of its sender is dropped and counted: data, and of this sender.
func TestOverLimit(t *testing.T) {
	const rate, burst = 8e6, 10 * 1_002_000 // a byte takes 1 us, so ten frames of 1002 bytes are the burst
	limit := bpf.ArrivalLimit{RateBps: rate, BurstNs: burst, UntilNs: 1 << 60}
	ended := limit
	ended.UntilNs = labStart
	l := newLab(t)
	plain := func(op rocev2.Opcode, n int) rocev2.Datagram {
		return rocev2.Datagram{Src: peer4, Dst: us4, Opcode: op, DestQP: 17, Payload: make([]byte, n)}
	}
	for _, c := range []struct {
		name    string
		limit   bpf.ArrivalLimit
		policed uint32
		packet  rocev2.Datagram
		before  int // frames of 1002 bytes that came at the same time
		drop    bool
	}{
		{"the first packet", limit, 1, plain(rocev2.RCWriteMiddle, 900), 0, false},
		{"the end of the burst", limit, 1, plain(rocev2.RCWriteMiddle, 900), 10, false},
		{"after the burst", limit, 1, plain(rocev2.RCWriteMiddle, 900), 11, true},
		{"SEND", limit, 1, plain(rocev2.RCSendOnlyInv, 900), 11, true},
		{"UC", limit, 1, plain(rocev2.UCWriteOnly, 900), 11, true},
		{"UD", limit, 1, plain(rocev2.UDSendOnly, 900), 11, true},
		{"out-of-order WRITE", limit, 1, plain(rocev2.OpOWrite, 900), 11, true},
		{"READ response", limit, 1, plain(rocev2.RCReadResponseMiddle, 900), 11, true},
		{"READ request", limit, 1, plain(rocev2.RCReadRequest, 0), 11, false},
		{"ACK", limit, 1, plain(rocev2.RCAck, 0), 11, false},
		{"atomic", limit, 1, plain(rocev2.RCFetchAdd, 0), 11, false},
		{"CNP", limit, 1, plain(rocev2.CNP, 0), 11, false},
		{"SACK", limit, 1, plain(rocev2.OpSACK, 0), 11, false},
		{"to queue pair 1", limit, 1,
			rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.UDSendOnly, DestQP: 1, Payload: make([]byte, 256)}, 11, false},
		{"of another sender", limit, 1,
			rocev2.Datagram{Src: netip.MustParseAddr("10.0.0.5"), Dst: us4, Opcode: rocev2.RCWriteMiddle, DestQP: 17, Payload: make([]byte, 900)}, 11, false},
		{"over IPv6, another sender", limit, 1, over6(plain(rocev2.RCWriteMiddle, 900)), 11, false},
		{"after the life of the limit", ended, 1, plain(rocev2.RCWriteMiddle, 900), 11, false},
		{"nobody is limited", limit, 0, plain(rocev2.RCWriteMiddle, 900), 11, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			l.at(labStart)
			key := bpf.KeyOf(peer4)
			l.must(l.objs.ArrivalLimits.Put(key, &c.limit))
			l.must(l.objs.ArrivalCounts.Put(key, &bpf.ArrivalCount{}))
			l.must(l.objs.LimitState.Put(uint32(0), &bpf.LimitWords{Policed: c.policed}))
			l.know(peer4)
			filler := fromPeer(t, plain(rocev2.RCWriteMiddle, 1000-14-20-8-12-4))
			for range c.before {
				if verdict, _ := l.in(filler); verdict != xdpPass {
					t.Fatalf("verdict %d", verdict)
				}
			}
			before := l.counters()["rx_over_limit"]
			verdict, _ := l.in(fromPeer(t, c.packet))
			if (verdict == xdpDrop) != c.drop {
				t.Errorf("verdict %d", verdict)
			}
			var n bpf.ArrivalCount
			l.must(l.objs.ArrivalCounts.Lookup(key, &n))
			want := bpf.ArrivalCount{EmptyNs: n.EmptyNs}
			if c.drop {
				want.DroppedPackets, want.DroppedBytes = 1, uint64(c.packet.Len(len(c.packet.Payload)))
			}
			if n != want || l.counters()["rx_over_limit"]-before != want.DroppedPackets {
				t.Errorf("%+v, want %+v", n, want)
			}
			// The bucket empties at the rate, so that packets pass again.
			l.at(labStart + 20*burst)
			if verdict, _ := l.in(filler); verdict != xdpPass {
				t.Errorf("20 bursts later: verdict %d", verdict)
			}
		})
	}
}
