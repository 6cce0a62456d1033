// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// forge is `forge HOST ARGS...`: softroce-xdp ARGS runs on host a. When data flows, both hosts get forged packets of
// their queue pairs, as from a host that knows everything but the tokens. When the peer of HOST has dropped some,
// the egress program of HOST is removed, and again when the agent has attached it again. After questions of the peer and
// new data the command gets SIGINT, and must exit with 0. All of that is repeated if perf had to end without the figures of
// its server: then it says nothing about the data.
func forge(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || args[0] != "a" && args[0] != "b" {
		ts.Fatalf("usage: forge a|b ARGS")
	}
	for try := 1; ; try++ {
		text := forgeOnce(ts, args)
		if try < 5 && slices.Contains(strings.Split(text, "\n"), lateFigures) {
			ts.Logf("%s", text)
			renewAgent(ts, strings.ToUpper(args[0]))
			continue
		}
		ts.Check(os.WriteFile(ts.MkAbs("forged"), []byte(text), 0o600))
		return
	}
}

// lateFigures is what perf prints if its server stands still for two seconds after SIGINT.
const lateFigures = "data not checked: the peer has not sent its figures in time"

// renewAgent replaces an agent: one attaches the program three times an hour, another one counts anew. A perf server that
// used its device has ended, and the script starts it again.
func renewAgent(ts *testscript.TestScript, host string) {
	run := func(host string, args ...string) error {
		return ts.Exec("nsenter", append([]string{"--net=" + ts.Getenv(host), "softroce-xdp",
			"--pin-root", ts.Getenv(host + "_PINS"), "--run-dir", ts.Getenv(host + "_RUN")}, args...)...)
	}
	ts.Check(run(host, "attach", "--upgrade", "eth0"))
	for end := time.Now().Add(script.Patience); ; time.Sleep(100 * time.Millisecond) {
		err := run("A", "perf", "write", "10.53.0.2", "--messages", "1", "-q")
		if err == nil {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("perf after the upgrade: %v", err)
		}
	}
}

// forgeOnce does the work of forge once, and returns what the command has printed.
func forgeOnce(ts *testscript.TestScript, args []string) string {
	top := script.Hosts(ts)
	hosts := []*forgedHost{openForged(ts, top.Host(1), "A"), openForged(ts, top.Host(2), "B")}
	defer func() {
		for _, h := range hosts {
			h.att.Close()
		}
	}()
	from, peer := hosts[0], hosts[1]
	if args[0] == "b" {
		from, peer = peer, from
	}
	out, err := os.CreateTemp(ts.Getenv("WORK"), "forge")
	ts.Check(err)
	defer out.Close()
	c := exec.Command("nsenter", append([]string{"--net=" + ts.Getenv("A"), "softroce-xdp",
		"--pin-root", ts.Getenv("A_PINS"), "--run-dir", ts.Getenv("A_RUN")}, args[1:]...)...)
	c.Env = append(os.Environ(), "PATH="+ts.Getenv("PATH"), "GORACE="+ts.Getenv("GORACE"))
	c.Dir, c.Stdout, c.Stderr = ts.Getenv("WORK"), out, out
	ts.Check(c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()

	stop := make(chan struct{})
	floods := make(chan error, len(hosts))
	started := 0
	// until waits for a condition, unless the command ends.
	until := func(what string, done func() bool) error {
		for end := time.Now().Add(script.Patience); !done(); time.Sleep(20 * time.Millisecond) {
			select {
			case err := <-ended:
				ended <- err
				return fmt.Errorf("the command has ended (%v) before %s", err, what)
			default:
			}
			if time.Now().After(end) {
				return fmt.Errorf("after %v: no %s", script.Patience, what)
			}
		}
		return nil
	}
	err = func() error {
		begun := hosts[1].count("rx_delivered")
		if err := until("data", func() bool { return hosts[1].count("rx_delivered") > begun+100 }); err != nil {
			return err
		}
		dropped := func() uint64 { return peer.count("unproven_data") + peer.count("unproven_nak") }
		before := dropped()
		for i, h := range hosts {
			started++
			go func() { floods <- h.flood(hosts[1-i], stop) }()
		}
		if err := until("forged packets that are dropped", func() bool { return dropped() > before+1000 }); err != nil {
			return err
		}
		for range removals {
			questions, delivered := peer.count("stamp_questions"), hosts[1].count("rx_delivered")
			if err := until("egress program to remove", func() bool { return from.removeEgress() == nil }); err != nil {
				return err
			}
			if err := until("questions and data without the egress program", func() bool {
				return peer.count("stamp_questions") > questions && hosts[1].count("rx_delivered") > delivered+100
			}); err != nil {
				return err
			}
		}
		return nil
	}()
	close(stop) // before the end: perf waits two seconds for the figures of its server
	for range started {
		err = errors.Join(err, <-floods)
	}
	_ = c.Process.Signal(unix.SIGINT) // nsenter has become softroce-xdp
	var exit error
	select {
	case exit = <-ended:
	case <-time.After(script.Patience):
		_ = c.Process.Kill()
		exit = fmt.Errorf("it goes on after SIGINT: %w", <-ended)
	}
	text, _ := os.ReadFile(out.Name())
	if err = errors.Join(err, exit); err != nil {
		ts.Fatalf("%s: %v\n%s\na: %v\nb: %v", strings.Join(args, " "), err, text, hosts[0].counters(), hosts[1].counters())
	}
	ts.Logf("%d and %d packets forged; a: %v; b: %v", hosts[0].sent.Load(), hosts[1].sent.Load(), hosts[0].counters(), hosts[1].counters())
	return string(text)
}

// removals is how often a forge removes the program: an agent attaches it three times an hour.
const removals = 2

// forgedHost is an end of connections with an agent that serves the device.
type forgedHost struct {
	host *topo.Host
	run  string
	att  *loader.Attachment
	sent atomic.Uint64 // forged packets in its name
}

func openForged(ts *testscript.TestScript, h *topo.Host, name string) *forgedHost {
	f := &forgedHost{host: h, run: ts.Getenv(name + "_RUN")}
	ts.Check(h.Do(func() (err error) {
		f.att, err = loader.Open("eth0", loader.Options{PinRoot: ts.Getenv(name + "_PINS"), RunDir: f.run})
		return err
	}))
	return f
}

func (h *forgedHost) counters() map[string]uint64 {
	ctx, cancel := context.WithTimeout(context.Background(), script.Patience)
	defer cancel()
	s, err := device.ReadStatus(ctx, proto.SocketPath(h.run, "eth0"))
	if err != nil {
		return map[string]uint64{err.Error(): 0}
	}
	return s.Counters
}

func (h *forgedHost) count(name string) uint64 { return h.counters()[name] }

// removeEgress detaches the egress program, unless it is detached.
func (h *forgedHost) removeEgress() error {
	l, err := link.LoadPinnedLink(filepath.Join(h.att.Dir, "link_egress"), nil)
	if err != nil {
		return err
	}
	defer l.Close()
	return l.Detach()
}

// queuePairs returns the numbers that ingress gives to the engine, except those of control messages.
func (h *forgedHost) queuePairs() (qpns []uint32) {
	var qpn uint32
	var s bpf.Steer
	for it := h.att.Maps.SteerTable.Iterate(); it.Next(&qpn, &s); {
		if qpn > 1 && qpn < 1<<24 && qpn != rocev2.ControlQPN {
			qpns = append(qpns, qpn)
		}
	}
	return qpns
}

// flood sends packets in the name of h to the queue pairs of another host until stop is closed, about 10 000 a second:
// SENDs, WRITEs, ACKs and NAKs of all PSNs. They pass no egress program.
func (h *forgedHost) flood(to *forgedHost, stop chan struct{}) error {
	l, err := h.host.Netlink().LinkByName(topo.IfName)
	if err != nil {
		return err
	}
	var fd int
	if err := h.host.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	}); err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
		return err
	}
	eth := append(append([]byte{}, to.host.MAC()...), h.host.MAC()...)
	eth = append(eth, 8, 0)
	for i := 0; ; {
		select {
		case <-stop:
			return nil
		case <-time.After(time.Millisecond):
		}
		for _, qpn := range to.queuePairs() {
			for range 10 {
				d := rocev2.Datagram{Src: h.host.IPv4(), Dst: to.host.IPv4(), SrcPort: 0xC000, IPID: 1, DestQP: qpn, PSN: rocev2.PSN(uint32(i)*27961) & 0xFFFFFF}
				switch i++; i % 4 {
				case 0:
					d.Opcode, d.Payload = rocev2.RCSendOnly, []byte("forged!!")
				case 1:
					d.Opcode, d.Syndrome = rocev2.RCAck, 0x1f
				case 2:
					d.Opcode, d.Syndrome = rocev2.RCAck, rocev2.SyndromeNAK(rocev2.NAKRemoteOp)
				default:
					d.Opcode, d.Payload = rocev2.RCWriteMiddle, []byte("forged!!")
				}
				f, err := d.AppendTo(append([]byte{}, eth...))
				if err != nil {
					return err
				}
				if unix.Sendto(fd, f, 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index}) == nil {
					h.sent.Add(1)
				}
			}
		}
	}
}
