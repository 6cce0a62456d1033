// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
)

var (
	randomSeed    = flag.Uint64("random.seed", 1, "seed of TestRandomPackets")
	randomPackets = flag.Int("random.packets", 1_000_000, "packets of TestRandomPackets")
)

// A million random and mutated packets pass both programs. The results are compared with the
// model of model_test.go, which is written with the codec and independently of the C code:
// the packet unchanged, or exactly the packet without (ingress) or with (egress) its option,
// or a verdict of the control path.
func TestRandomPackets(t *testing.T) {
	if testing.Short() {
		*randomPackets = min(*randomPackets, 50_000)
	}
	t.Logf("seed %d, %d packets: -args -random.seed=N -random.packets=N", *randomSeed, *randomPackets)
	l := newLab(t)
	l.config(func(c *bpf.Config) { c.HelloRate = 2e9 })
	l.own(us4, us6)
	for _, a := range []netip.Addr{us4, us6, peer4, peer6} {
		l.know(a, aware)
	}
	arriving, leaving := randomCorpus(t, fromPeer), randomCorpus(t, toPeer)
	workers := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(*randomSeed, uint64(w)))
			out := make([]byte, 8192)
			for i := 0; i < *randomPackets/workers && !t.Failed(); i++ {
				if i%2 == 0 {
					checkIngress(t, l, randomFrame(rng, arriving), out)
				} else {
					checkEgress(t, l, randomFrame(rng, leaving), out)
				}
			}
		})
	}
	wg.Wait()
	counts := l.counters()
	t.Log(counts)
	if n := l.withoutToken.Load(); n > counts["tx_no_token"] {
		t.Errorf("%d packets with feedback were dropped, tx_no_token is %d", n, counts["tx_no_token"])
	}
	// The mutations must reach the interesting places, or they prove nothing.
	for _, name := range []string{"rx_stamped", "rx_option_foreign", "rx_option_checksum", "rx_option_version", "rx_truncated", "rx_bad_length",
		"rx_fragment", "rx_ip_options", "hello_answered", "control_bad_icrc", "control_malformed", "tx_stamped", "tx_malformed", "tx_option_foreign", "rx_forwarded", "tx_other_source", "rx_vlan", "tx_vlan"} {
		if counts[name] < uint64(*randomPackets)/10_000 {
			t.Errorf("only %d packets of %d reached %s", counts[name], *randomPackets, name)
		}
	}
}

// randomCorpus are packets of every kind, to be mutated.
func randomCorpus(t *testing.T, to func(testing.TB, rocev2.Datagram, ...uint16) []byte) [][]byte {
	var all [][]byte
	for _, f := range foreignFrames(t) {
		all = append(all, f)
	}
	slices.SortFunc(all, bytes.Compare) // the map's order is not the seed's
	full := rocev2.Stamp{Flags: 15, T1: 1, EchoT1: 2, EchoT2: 3, Credit: 4, CreditSeq: 5}
	for _, link := range slices.Concat(links, vlans[:4]) {
		for _, d := range []rocev2.Datagram{write(0), write(3), write(64), ack(9), hello(false), helloAck(false, 0), echo(false, 1, 2, 3),
			{Src: peer4, Dst: us4, Opcode: rocev2.CNP}, {Src: peer4, Dst: us4, Opcode: rocev2.OpCreditGrant, DestQP: rocev2.ControlQPN}} {
			for _, v6 := range []bool{false, true} {
				if v6 {
					d = over6(d)
				}
				f := to(t, d, link.tags...)
				all = append(all, f, f)
				if d.Stamp == nil {
					all = append(all, to(t, stamped(d, full), link.tags...))
				}
				if d.Stamp != nil {
					d.Stamp = nil
					all = append(all, to(t, d, link.tags...))
				}
			}
		}
	}
	return all
}

// randomFrame mutates a packet of the corpus, mostly where headers are, and often
// repairs the checksums afterwards so that the change is not found out early.
func randomFrame(rng *rand.Rand, corpus [][]byte) []byte {
	if rng.IntN(50) == 0 {
		f := make([]byte, 15+rng.IntN(200))
		for i := range f {
			f[i] = byte(rng.Uint32())
		}
		return f
	}
	f := slices.Clone(corpus[rng.IntN(len(corpus))])
	for range rng.IntN(4) {
		switch i := rng.IntN(len(f)); rng.IntN(9) {
		case 0: // anywhere
			f[i] = byte(rng.Uint32())
		case 1: // one bit
			f[i] ^= 1 << rng.IntN(8)
		case 2: // in the headers
			f[12+rng.IntN(min(len(f)-12, 80))] = byte(rng.Uint32())
		case 3: // in what is behind them
			f[len(f)-1-rng.IntN(min(len(f), 48))] ^= 1 << rng.IntN(8)
		case 4: // shorter
			f = f[:max(15, len(f)-rng.IntN(60))] // the kernel runs no shorter ones
		case 5: // longer
			f = append(f, make([]byte, rng.IntN(64))...)
		case 6: // a length field up or down
			at := []int{offIP + 2, offIP + 4, offUDP4 + 4, offUDP6 + 4}[rng.IntN(4)] + []int{0, 4, 8}[rng.IntN(3)]
			if at+2 <= len(f) {
				v := binary.BigEndian.Uint16(f[at:])
				binary.BigEndian.PutUint16(f[at:], v+uint16([]int{-41, -40, -4, -1, 1, 4, 40}[rng.IntN(7)]))
			}
		case 7: // the fields that matter most
			at := []int{0, 12, offIP, offIP + 1, offIP + 6, offIP + 7, offIP + 9, offUDP4 + 2, offUDP4 + 3, offUDP4 + 6, offBTH4, offBTH4 + 7}[rng.IntN(12)]
			if at < len(f) {
				f[at] = []byte{0, 1, 3, 6, 17, 0x20, 0x40, 0x45, 0x46, 0x60, 0xc0, 0xc1, 0xfe, 0xff}[rng.IntN(14)]
			}
		default: // an IPv4 option, or the surplus area as the sender counts it
			if len(f) > offUDP4 && f[offIP] == 0x45 {
				f = slices.Insert(f, offUDP4, 1, 1, 1, 1)
				f[offIP] = 0x46
				addToIPLength(f, 4)
			}
		}
	}
	if rng.IntN(2) == 0 {
		repairOption(f, rng)
	}
	return f
}

// repairOption makes the checksum of what could be an option at the frame's end
// right again, sometimes under another version.
func repairOption(f []byte, rng *rand.Rand) {
	if len(f) < 14+20+8+rocev2.StampLen {
		return
	}
	o := f[len(f)-rocev2.StampLen:]
	if o[2] != 127 || o[3] != 38 {
		return
	}
	if rng.IntN(8) == 0 {
		o[7] = byte(rng.IntN(4))
	}
	o[0], o[1] = 0, 0
	sum := uint32(rocev2.StampLen)
	for i := 0; i < len(o); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(o[i:]))
	}
	sum = sum&0xffff + sum>>16
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(o, ^uint16(sum))
}

func checkIngress(t *testing.T, l *lab, frame, buf []byte) {
	o := ebpf.RunOptions{Data: frame, DataOut: buf}
	verdict, err := l.objs.SoftroceIngress.Run(&o)
	if err != nil {
		t.Errorf("%x: %v", frame, err)
		return
	}
	want, wantOut := wantIngress(frame)
	if verdict != want || verdict == xdpPass && !bytes.Equal(o.DataOut, wantOut) {
		t.Errorf("ingress of %x:\nverdict %d, want %d\n got %x\nwant %x", frame, verdict, want, o.DataOut, wantOut)
	}
	if verdict == xdpTX {
		p, err := rocev2.ParseFrame(o.DataOut)
		if err != nil || p.VerifyICRC() != nil || p.Opcode() != rocev2.OpHelloAck {
			t.Errorf("answer to %x: %x: %v", frame, o.DataOut, err)
		}
	}
}

func checkEgress(t *testing.T, l *lab, frame, buf []byte) {
	o := ebpf.RunOptions{Data: frame, DataOut: buf}
	verdict, err := l.objs.SoftroceEgress.Run(&o)
	if errors.Is(err, unix.EINVAL) && len(frame) < offIP+40 {
		return // the kernel makes no skb of a cut-off IP header
	}
	if err != nil {
		t.Errorf("%x: %v", frame, err)
		return
	}
	if verdict == tcDrop && feedback(frame) && bytes.Equal(o.DataOut, frame) {
		l.withoutToken.Add(1)
		return
	}
	if want := wantEgress(frame, o.DataOut); verdict != tcNext || !bytes.Equal(o.DataOut, want) {
		t.Errorf("egress of %x:\nverdict %d\n got %x\nwant %x", frame, verdict, o.DataOut, want)
	}
}
