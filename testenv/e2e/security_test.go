// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// heeded are the registers that the policy reads.
type heeded struct {
	ceMarks, ceWindow, cnps, naks, rnrs, psnRegressions uint64
	loss, cuts                                          uint32
	caps                                                uint16
	token                                               uint64
}

func heededOf(d bpf.DestRegs) heeded {
	return heeded{
		ceMarks: d.Ces, ceWindow: uint64(d.WinCe), cnps: d.Cnps, naks: d.Naks, rnrs: d.Rnrs, psnRegressions: d.PsnRegressions,
		loss: d.WinLoss, cuts: d.Policy.Decreases, caps: d.Caps, token: d.TxToken,
	}
}

// noDelay are options of attach by which the policy ignores the delays of a machine that stalls. Forged HELLOs cause
// HELLOs, whose answers measure the path.
var noDelay = []string{"--policy", "target=1m", "--policy", "target-max=1m"}

// 30 000 packets in the name of a peer that is known, with a right ICRC: NAKs, CNPs, CE
// marks, options with another token, HELLOs and HELLO_ACKs. Nothing of it reaches the
// policy. (A UD stream used to end at 8.7 Mbit/s of 10 Gbit/s.)
func TestForgedPeer(t *testing.T) {
	topo.RequireRoot(t)
	l := newLab(t, labSpec{attach: noDelay})
	a := l.node[0].open(t)
	l.send(t, 200)
	testkit.Eventually(t, "the peer understands stamps", func() bool { return l.row(t, a).Caps&bpf.CapStamp != 0 && l.row(t, a).LastEchoT1Ns != 0 })
	// Until the policy has judged the traffic, and no window is open.
	testkit.Eventually(t, "quiet", func() bool { return l.row(t, a).Queued == 0 })
	before, rate := heededOf(l.row(t, a)), l.row(t, a).RateBps

	frames := forgedFrames(t, l)
	testkit.Eventually(t, "the forged packets", func() bool { // of which a busy machine loses some
		sendFrames(t, l.top.Host(2), frames, 30_000)
		return stat(t, a, "rx_token_wrong") > 5000 && stat(t, a, "rx_unproven") > 5000
	})
	if after := l.row(t, a); heededOf(after) != before || after.RateBps < rate {
		t.Errorf("the policy's registers\n%+v, rate %d before\n%+v, rate %d after", before, rate, heededOf(after), after.RateBps)
	}
	// Forged packets may still be in the queues, and more do not fit.
	testkit.Eventually(t, "no packet is sent again afterwards", func() bool { return l.send(t, 2000).Retransmits == 0 })
}

// send sends so many packets to host 1.
func (l *lab) send(t *testing.T, packets uint64) load.Report {
	t.Helper()
	r, err := l.ep[0].Send(t.Context(), load.Flow{To: l.addr[1], Bytes: packets * 1024, Window: window, MinRTO: time.Minute, GiveUp: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// forgedFrames are what an attacker who does not receive at the second host's address can
// send to the first.
func forgedFrames(t *testing.T, l *lab) (frames [][]byte) {
	us, peer := l.top.Host(1), l.top.Host(2)
	base := rocev2.Datagram{Src: peer.IPv4(), Dst: us.IPv4(), IPID: 1, DestQP: 17, PSN: 100}
	lies := &rocev2.Stamp{Flags: 15, Token: 1, T1: 5, EchoT1: 6, EchoT2: 7, Credit: 1 << 30}
	for _, change := range []func(*rocev2.Datagram){
		func(d *rocev2.Datagram) { d.Opcode, d.Syndrome = rocev2.RCAck, 0x60 },
		func(d *rocev2.Datagram) { d.Opcode = rocev2.CNP },
		func(d *rocev2.Datagram) { d.Opcode, d.TOS = rocev2.UDSendOnly, 3 },
		func(d *rocev2.Datagram) { d.Opcode, d.Syndrome, d.Stamp = rocev2.RCAck, 0x60, lies },
		func(d *rocev2.Datagram) { d.Opcode, d.TOS, d.Stamp = rocev2.UDSendOnly, 3, lies },
		func(d *rocev2.Datagram) { d.Opcode, d.DestQP, d.Stamp = rocev2.OpHello, rocev2.ControlQPN, lies },
		func(d *rocev2.Datagram) { d.Opcode, d.DestQP, d.Stamp = rocev2.OpHelloAck, rocev2.ControlQPN, lies },
	} {
		d := base
		change(&d)
		f := append(append([]byte{}, us.MAC()...), peer.MAC()...)
		f, err := d.AppendTo(append(f, 8, 0))
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
	}
	return frames
}

// sendFrames sends n frames in turn from a host's interface.
func sendFrames(t *testing.T, h *topo.Host, frames [][]byte, n int) {
	t.Helper()
	link, err := h.Netlink().LinkByName(topo.IfName)
	if err != nil {
		t.Fatal(err)
	}
	err = h.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		// Past the product on that host: what it would stamp is not what is tested.
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
			return err
		}
		to := &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index}
		for i := range n {
			if err := unix.Sendto(fd, frames[i%len(frames)], 0, to); err != nil && err != unix.ENOBUFS {
				return err
			}
			if i%500 == 499 {
				time.Sleep(time.Millisecond)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// nobody sends UDP to port 4791 from a process without rights, as nobody (65534): data
// whose PSN goes back each time, which looks like a sender that loses everything.
const nobodyEnv = "SOFTROCE_TEST_NOBODY_SENDS_TO"

func nobody(to string) error {
	if err := syscall.Setuid(65534); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	var addr unix.SockaddrInet4
	addr.Port = rocev2.UDPPort
	if _, err := fmt.Sscanf(to, "%d.%d.%d.%d", &addr.Addr[0], &addr.Addr[1], &addr.Addr[2], &addr.Addr[3]); err != nil {
		return err
	}
	for i := range 2000 {
		b := make([]byte, rocev2.BTHLen+64+rocev2.ICRCLen)
		b[0] = byte(rocev2.RCSendOnly)
		b[7], b[11] = 17, byte(200-i%200)
		if err := unix.Sendto(fd, b, 0, &addr); err != nil {
			return err
		}
		if i%100 == 99 {
			// A socket that is disconnected has no port any more, but what it has sent had one.
			none := unix.RawSockaddr{Family: unix.AF_UNSPEC}
			if _, _, err := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none)); err != 0 {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// A process without rights moves no register: neither those of a destination in use, nor
// does it make an entry. (It used to take the rate of the destination to a 64 000th.)
func TestUnprivilegedSender(t *testing.T) {
	topo.RequireRoot(t)
	l := newLab(t, labSpec{attach: noDelay})
	a := l.node[0].open(t)
	l.send(t, 200)
	testkit.Eventually(t, "the answer to HELLO, and no traffic", func() bool {
		r := l.row(t, a)
		return r.Caps&bpf.CapStamp != 0 && r.Queued == 0
	})
	before, sent := heededOf(l.row(t, a)), l.row(t, a).TxPackets
	cmd := l.top.Host(1).Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), nobodyEnv+"="+l.top.Host(2).IPv4().String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testkit.Eventually(t, "its packets", func() bool { return stat(t, a, "tx_foreign") >= 2000 })
	if after := l.row(t, a); heededOf(after) != before || after.TxPackets != sent {
		t.Errorf("registers\n%+v, %d sent before\n%+v, %d sent after", before, sent, heededOf(after), after.TxPackets)
	}
	// The other packets may still be in the queues, and more do not fit.
	testkit.Eventually(t, "root's own packets are counted, and none is sent again", func() bool {
		before := l.row(t, a).TxPackets
		r := l.send(t, 200)
		return l.row(t, a).TxPackets >= before+200 && r.Retransmits == 0
	})
}
