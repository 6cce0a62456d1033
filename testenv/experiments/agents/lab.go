// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

const (
	ifName  = "c0"
	rateBps = 20_000_000
	queues  = 4 // that each end of the cable could have
)

// patience bounds the wait for what must come about on any machine.
var patience = 3 * time.Minute

// Addresses of the cable.
var (
	addrA = netip.MustParsePrefix("10.42.0.1/24")
	addrB = netip.MustParsePrefix("10.42.0.2/24")

	// secondB is another address of host B.
	secondB = netip.MustParseAddr("10.42.0.12")
)

// Lab is two hosts joined by a cable. Host A, which the situations change, sends to host B.
type Lab struct {
	A, B    *topo.Host
	top     *topo.Topology
	bin     string
	dir     string // directory of all files below
	pins    string // a bpf file system of A's own
	run     string // A's run directory
	attach  []string
	spare   string // an empty network namespace
	traffic *traffic

	// foreground is the process of `attach --foreground`, nil for an agent in the background.
	foreground *foreground
}

// NewLab makes the hosts, attaches the product with the binary bin to both ends of the cable,
// on A as the group says, and starts traffic. dir is an empty directory.
func NewLab(bin, dir string, g *Group) (_ *Lab, err error) {
	l := &Lab{bin: bin, dir: dir, pins: filepath.Join(dir, "bpf"), run: filepath.Join(dir, "run"), attach: g.Attach}
	if g.Foreground {
		l.foreground = &foreground{}
	}
	if l.top, err = topo.New(topo.Spec{Hosts: topo.Hosts(3)}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	l.A, l.B, l.spare = l.top.Host(1), l.top.Host(2), l.top.Host(3).NamespacePath()
	for _, d := range []string{l.pins, l.run, l.run + "B"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	if err := unix.Mount("bpf", l.pins, "bpf", 0, ""); err != nil {
		return nil, fmt.Errorf("mount a bpf file system at %s: %w", l.pins, err)
	}
	if err := l.Plug(); err != nil {
		return nil, err
	}
	if err := l.attachB(); err != nil {
		return nil, err
	}
	if err := l.Attach(); err != nil {
		return nil, err
	}
	l.traffic, err = startTraffic(l.A, l.B)
	return l, err
}

// Plug joins the hosts by the cable and gives its ends their addresses.
func (l *Lab) Plug() error {
	if _, err := topo.Cable(l.A, l.B, topo.CableSpec{Name: ifName, Queues: queues}); err != nil {
		return err
	}
	if out, err := l.B.Command("ip", "addr", "add", secondB.String()+"/32", "dev", "lo").CombinedOutput(); err != nil && !strings.Contains(string(out), "already") {
		return fmt.Errorf("%s: %w\n%s", secondB, err, out)
	}
	for h, addr := range map[*topo.Host]netip.Prefix{l.A: addrA, l.B: addrB} {
		// arp_notify: a peer gets to know a changed hardware address.
		script := fmt.Sprintf("ip addr add %s dev %s; echo 1 >/proc/sys/net/ipv4/conf/%s/arp_notify", addr, ifName, ifName)
		// Two queues at first, so that there can be more.
		script += fmt.Sprintf("; ethtool -L %s rx 2 tx 2", ifName)
		// The peer's address is not asked for again while the interface is in a bridge that is down.
		script += fmt.Sprintf("; echo 3600000 >/proc/sys/net/ipv4/neigh/%s/base_reachable_time_ms", ifName)
		if out, err := h.Command("sh", "-ec", script).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %s: %w\n%s", h.Name(), script, err, out)
		}
	}
	return nil
}

// Attach attaches the product on host A.
func (l *Lab) Attach() error {
	if l.foreground != nil {
		return l.foreground.start(l)
	}
	out, err := l.Product(l.attachArgs()...)
	if err != nil {
		err = fmt.Errorf("attach: %w\n%s", err, out)
	}
	return err
}

func (l *Lab) attachArgs() []string {
	return append([]string{"attach", "--rate", fmt.Sprint(rateBps), ifName}, l.attach...)
}

// attachB attaches the product on host B, whose rate is no limit.
func (l *Lab) attachB() error {
	out, err := l.productB("attach", "--rate", "1G", ifName)
	if err != nil {
		err = fmt.Errorf("attach on the peer: %w\n%s", err, out)
	}
	return err
}

// Product runs the program on host A.
func (l *Lab) Product(args ...string) (string, error) {
	out, err := l.A.Command(l.bin, append(args, l.options()...)...).CombinedOutput()
	return string(out), err
}

// log is the file of the agent's log.
func (l *Lab) log() string { return loader.LogPath(l.run, ifName) }

func (l *Lab) options() []string { return []string{"--pin-root", l.pins, "--run-dir", l.run} }

func (l *Lab) productB(args ...string) (string, error) {
	args = append(args, "--pin-root", l.pins+"/B", "--run-dir", l.run+"B")
	out, err := l.B.Command(l.bin, args...).CombinedOutput()
	return string(out), err
}

// stoppedRm stops the agent while rm of a script runs: it repairs what is half removed, and then the rest, and may put a file into a
// directory that rm is about to remove. That of host B is not stopped, so rm is repeated.
const stoppedRm = `rm() {
	[ $AGENT -gt 1 ] || return 1
	kill -STOP $AGENT
	status=0
	command rm "$@" || command rm "$@" || status=$?
	kill -CONT $AGENT
	return $status
}
`

// Do runs a script on host A with the names of Situation.Command.
func (l *Lab) Do(script string) (string, error) {
	c := l.A.Command("sh", "-ec", stoppedRm+script)
	c.Env = append(os.Environ(),
		"IF="+ifName, "PEER="+addrB.Addr().String(), "PINROOT="+l.pins, "PINS="+loader.PinDir(l.pins, ifName),
		"RUN="+l.run, "STATE="+filepath.Join(l.run, ifName+".json"), "AGENT="+fmt.Sprint(l.state().AgentPID),
		"NS="+filepath.Base(l.spare), "X="+l.wrapper(), "ADDR="+addrA.String())
	out, err := c.CombinedOutput()
	return string(out), err
}

// wrapper is a program that is the product with the directories of host A.
func (l *Lab) wrapper() string {
	path := filepath.Join(l.dir, "softroce-xdp")
	if _, err := os.Stat(path); err != nil {
		script := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\" %s\n", l.bin, strings.Join(l.options(), " "))
		_ = os.WriteFile(path, []byte(script), 0o755) // a script that does not exist fails
	}
	return path
}

// Check is `status --check` of the interface: what it prints, and whether all is well.
func (l *Lab) Check() (said string, well bool) {
	said, err := l.Product("status", "--check", ifName)
	return said, err == nil
}

// stamped is the number of packets that A's egress program stamped, 0 if status does not say it.
func (l *Lab) stamped() uint64 {
	c := l.A.Command(l.bin, append([]string{"status", "--json", ifName}, l.options()...)...)
	out, _ := c.Output()
	var all []struct {
		Counters map[string]uint64 `json:"counters"`
	}
	if json.Unmarshal(out, &all) != nil || len(all) == 0 {
		return 0
	}
	return all[0].Counters["tx_stamped"]
}

// Well reports whether everything is in force as it was at want, and traffic is stamped and
// paced. The error describes what is missing.
func (l *Lab) Well(want *Force) error {
	if err := l.content(); err != nil {
		return err
	}
	return l.InForce(want)
}

// content returns an error if status --check names a problem.
func (l *Lab) content() error {
	if said, well := l.Check(); !well {
		return fmt.Errorf("status --check names a problem:\n%s", said)
	}
	return nil
}

// InForce is Well without the judgement of status.
func (l *Lab) InForce(want *Force) error {
	f, err := l.Force()
	if err != nil {
		return err
	}
	if want != nil && !f.covers(*want) {
		return fmt.Errorf("in force: %s\nnot:      %s", f, *want)
	}
	before := l.stamped()
	if bps := l.traffic.rate(500 * time.Millisecond); bps == 0 || bps > 1.5*rateBps {
		return fmt.Errorf("traffic of %.1f Mbit/s, for a rate of %d", bps/1e6, rateBps/1_000_000)
	}
	if l.stamped() <= before {
		return errors.New("traffic is not stamped")
	}
	return nil
}

// Close takes everything down.
func (l *Lab) Close() error {
	var errs []error
	if l.traffic != nil {
		errs = append(errs, l.traffic.close())
	}
	agents := []int{l.state().AgentPID}
	if dev, err := l.A.Netlink().LinkByName(ifName); err == nil {
		if l.foreground != nil {
			l.foreground.stop()
		}
		_, _ = l.Product("detach", ifName) // what a situation left may not be detachable
		_ = l.A.Netlink().LinkDel(dev)
	}
	_, _ = l.productB("detach", ifName)
	for _, pid := range agents {
		if pid != 0 && l.ours(pid) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	errs = append(errs, l.top.Close())
	for unix.Unmount(l.pins, unix.MNT_DETACH) == nil {
		continue // a situation may have mounted another one on top
	}
	return errors.Join(errs...)
}

// ours reports whether a process is an agent of this lab.
func (l *Lab) ours(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.Contains(string(b), l.run)
}
