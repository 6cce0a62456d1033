// SPDX-License-Identifier: Apache-2.0

package xsk_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/pacer"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// What the data plane steers arrives in the socket of its queue: the packet as the
// peer's transport built it, without the stamp option, and the metadata in front.
func TestSteeredByTheProduct(t *testing.T) {
	for _, mode := range []loader.XDPMode{loader.XDPNative, loader.XDPGeneric} {
		t.Run(string(mode), func(t *testing.T) { testSteered(t, mode) })
	}
}

func testSteered(t *testing.T, mode loader.XDPMode) {
	const qpn = 0x1234
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), MTU: 9000, StaticNeighbours: true})
	peer, host := top.Host(1), top.Host(2)
	att := attach(t, host, mode)
	set := openOn(t, host, xsk.Config{SG: true})
	out := openOn(t, peer, xsk.Config{SG: true, TxPacket: 4300})[0]

	// What is not steered yet goes up the stack, and nothing to the socket.
	if err := set.Register(att.Maps.Xsks, 0); err != nil {
		t.Fatal(err)
	}
	frame := func(d rocev2.Datagram) []byte {
		t.Helper()
		d.Opcode, d.DestQP, d.PKey, d.RKey, d.VA, d.DMALen = rocev2.RCWriteOnly, qpn, 0xffff, 7, 0x1000, uint32(len(d.Payload))
		eth := append(append(append([]byte{}, host.MAC()...), peer.MAC()...), 0x08, 0)
		if !d.Src.Is4() {
			eth[12], eth[13] = 0x86, 0xdd
		}
		b, err := d.AppendTo(eth)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	v4 := rocev2.Datagram{Src: peer.IPv4(), Dst: host.IPv4(), TTL: 64, SrcPort: 0xc001, Payload: pattern(64, 1)}
	v6 := v4
	v6.Src, v6.Dst = peer.IPv6(), host.IPv6()
	stamp := rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampCredit, Token: 9, T1: 0x112233445566, Credit: 7, CreditSeq: 8}
	send(t, out, frame(v4))

	live, err := att.LiveConfig()
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	if err := att.Maps.SteerTable.Put(uint32(qpn), bpf.Steer{Queues: uint32(len(set))}); err != nil {
		t.Fatal(err)
	}
	live.Steered = 1
	for _, d := range []rocev2.Datagram{v4, v6} {
		if err := att.Maps.DestTable.Put(bpf.KeyOf(d.Src), bpf.DestRegs{RxToken: stamp.Token}); err != nil {
			t.Fatal(err)
		}
	}

	with := func(d rocev2.Datagram, tos uint8, payload int, s *rocev2.Stamp) rocev2.Datagram {
		d.TOS, d.Payload, d.Stamp = tos, pattern(payload, byte(payload)), s
		return d
	}
	for _, c := range []struct {
		name string
		d    rocev2.Datagram
	}{
		{"stamped", with(v4, 0, 64, &stamp)},
		{"stamped, IPv6", with(v6, 0, 64, &stamp)},
		{"unstamped", with(v4, 0, 64, nil)},
		{"unstamped, CE", with(v4, 3, 64, nil)},
		{"PMTU 2048", with(v4, 0, 2048, &stamp)},
		{"PMTU 4096", with(v4, 0, 4096, &stamp)},
		{"PMTU 4096, IPv6, unstamped", with(v6, 0, 4096, nil)},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := loader.Monotonic()
			send(t, out, frame(c.d))
			batch := set[0].NewBatch(8)
			if ok, err := set[0].Wait(testkit.Patience); !ok || err != nil {
				st, _ := set[0].Stats()
				t.Fatalf("nothing came: %v, %+v, %v", err, st, counters(t, att))
			}
			if n := set[0].Receive(batch); n != 1 {
				t.Fatalf("%d packets", n)
			}
			defer batch.Release()
			p := batch.Packet(0)
			var meta bpf.RxMeta
			if err := binary.Read(bytes.NewReader(p.Meta()), binary.NativeEndian, &meta); err != nil {
				t.Fatal(err)
			}
			if meta.T2Ns < before || meta.T2Ns > loader.Monotonic() {
				t.Errorf("T2 is %d, it was %d before", meta.T2Ns, before)
			}
			want := bpf.RxMeta{Magic: bpf.MetaMagic, T2Ns: meta.T2Ns, Ce: c.d.TOS / 3}
			if c.d.Stamp != nil {
				want.Flags, want.Proven, want.T1Ns, want.Credit, want.CreditSeq = stamp.Flags, 1, stamp.T1, stamp.Credit, stamp.CreditSeq
			}
			if meta != want {
				t.Errorf("metadata %+v, want %+v", meta, want)
			}
			plain := c.d
			plain.Stamp = nil
			wantFrame := frame(plain)
			got := p.Linear(make([]byte, 8192))
			if c.d.Stamp != nil && p.Segments() > 1 { // padding, where the frame could not be shortened
				whole := frame(c.d)
				wantFrame = append(wantFrame, whole[len(whole)-rocev2.StampLen:]...)
			}
			if !bytes.Equal(got, wantFrame) {
				t.Errorf("%d bytes in %d segments, want %d\n got %x\nwant %x", len(got), p.Segments(), len(wantFrame), got[:60], wantFrame[:60])
			}
			if parsed, err := rocev2.ParseFrame(got); err != nil || parsed.VerifyICRC() != nil {
				t.Errorf("what arrived is no RoCEv2 packet: %v", err)
			}
		})
	}
	if n := counters(t, att)["rx_steered"]; n != 7 {
		t.Errorf("%d packets were steered, want 7", n)
	}

	// After the socket is closed the packets go up the stack, where nobody has the
	// QPN, and are counted.
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	send(t, out, frame(v4))
	n := counters(t, att)["rx_steer_missed"]
	for end := time.Now().Add(testkit.Patience); n == 0 && time.Now().Before(end); n = counters(t, att)["rx_steer_missed"] {
		time.Sleep(time.Millisecond) // the kernel moves the packet to the receiver at a time of its own
	}
	if n != 1 {
		t.Errorf("%d packets missed the closed socket, want 1", n)
	}
}

// attach puts the product on the host's interface, as the command does.
func attach(t *testing.T, h *topo.Host, mode loader.XDPMode) *loader.Attachment {
	t.Helper()
	pins := filepath.Join("/sys/fs/bpf", fmt.Sprintf("softroce-xsk-%d", os.Getpid()))
	o := loader.Options{PinRoot: pins, RunDir: t.TempDir(), XDPMode: mode, Pacer: pacer.None}
	var att *loader.Attachment
	err := h.Do(func() (err error) {
		att, err = loader.Attach(topo.IfName, o)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		att.Close()
		if err := h.Do(func() error { return loader.Detach(topo.IfName, o) }); err != nil {
			t.Error(err)
		}
		if err := os.Remove(pins); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	})
	return att
}

func openOn(t *testing.T, h *topo.Host, c xsk.Config) (set xsk.Set) {
	t.Helper()
	err := h.Do(func() error {
		link, err := h.Netlink().LinkByName(topo.IfName)
		if err != nil {
			return err
		}
		c.Ifindex = link.Attrs().Index
		set, err = xsk.OpenAll(c)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	return set
}

func counters(t *testing.T, att *loader.Attachment) map[string]uint64 {
	t.Helper()
	stats, err := att.Stats()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, s := range slices.DeleteFunc(stats, func(s loader.Stat) bool { return s.Count == 0 }) {
		got[s.Name] = s.Count
	}
	return got
}
