// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// forge sends frames from a host in turn, about 20 000 a second, until the test ends or stop is called.
func forge(t *testing.T, h *engines.Host, frames [][]byte) (stop func()) {
	t.Helper()
	l, err := h.Netlink().LinkByName(topo.IfName)
	if err != nil {
		t.Fatal(err)
	}
	var fd int
	if err := h.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer unix.Close(fd)
		to := &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index}
		for i := 0; ; i++ {
			if i%20 == 0 {
				select {
				case <-end:
					return
				case <-time.After(time.Millisecond):
				}
			}
			_ = unix.Sendto(fd, frames[i%len(frames)], 0, to) // some may be lost
		}
	})
	stop = sync.OnceFunc(func() { close(end); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

// forgedFrames are packets from one host to a queue pair of the other: SENDs, ACKs and NAKs with many PSNs.
func forgedFrames(t *testing.T, from, to *side) (frames [][]byte) {
	t.Helper()
	for i := range 600 {
		d := rocev2.Datagram{Src: from.host.IPv4(), Dst: to.host.IPv4(), SrcPort: 0xC000, IPID: 1, DestQP: to.qp.QPN(), PSN: rocev2.PSN(i * 27961)}
		switch i % 3 {
		case 0:
			d.Opcode, d.Payload = rocev2.RCSendOnly, []byte("forged!!")
		case 1:
			d.Opcode, d.Syndrome = rocev2.RCAck, 0x1f
		default:
			d.Opcode, d.Syndrome = rocev2.RCAck, rocev2.SyndromeNAK(rocev2.NAKRemoteOp)
		}
		f := append(append([]byte{}, to.host.MAC()...), from.host.MAC()...)
		f, err := d.AppendTo(append(f, 8, 0))
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
	}
	return frames
}

// The egress program of a host is removed, while forged packets in its name arrive at its peer. The peer drops
// them, asks, and the connection goes on.
func TestForgedWhileFilterIsRemoved(t *testing.T) {
	hosts := twoHosts(t, "--policy", "mode=fixed")
	a, b := connected(t, hosts, patient)
	tr := startTraffic(a, b, 20000)
	tr.flows(t)
	forge(t, hosts[1], forgedFrames(t, b, a))
	dropped := func() uint64 { return counter(a.dev, "unproven_data") + counter(a.dev, "unproven_nak") }
	for end := time.Now().Add(testkit.Patience); dropped() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no forged packet was dropped\n%s", dump(a.dev))
		}
	}
	tr.flows(t)
	l, err := link.LoadPinnedLink(filepath.Join(hosts[1].Attachment(t).Dir, "link_egress"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Detach(); err != nil {
		t.Fatal(err)
	}
	for questions := counter(a.dev, "stamp_questions"); counter(a.dev, "stamp_questions") < questions+3; {
		tr.flows(t)
	}
	tr.flows(t)
	if n := counter(a.dev, "rx_delivered"); n != 0 {
		t.Errorf("%d forged requests were taken", n)
	}
	t.Log(dump(a.dev))
}
