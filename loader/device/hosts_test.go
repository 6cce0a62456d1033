// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// How much the tests do: little in CI, more by `make test-device`.
var (
	eachBytes   = flag.Int("device.bytes", 2*peerBytes, "bytes that each process moves by each operation between two hosts")
	allMessages = flag.Int("device.messages", 100_000, "random control messages of a hostile client")
)

const nobody = 65534

// twoHosts returns two hosts whose agents serve a device to all users.
func twoHosts(t *testing.T, flags ...string) []*engines.Host {
	t.Helper()
	require.Root(t)
	spec := topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true}
	return engines.New(t, spec, append([]string{"--nic", "--nic-mode", "0666", "--rate", "10G", "--pacer", "none"}, flags...)...)
}

// startOn starts an unprivileged peer on a host.
func startOn(t *testing.T, h *engines.Host) *process {
	t.Helper()
	return startRoleOn(t, "peer", h, h)
}

// namespace runs functions in a network namespace.
type namespace interface{ Do(f func() error) error }

// noInterface is a network namespace without interfaces, a new one in each call.
type noInterface struct{}

func (noInterface) Do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// startRoleOn starts an unprivileged process that uses the device of a host, in the network namespace of
// another one perhaps.
func startRoleOn(t *testing.T, role string, h *engines.Host, in namespace) (p *process) {
	t.Helper()
	dir := h.LoaderOptions().RunDir
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = d[:strings.LastIndex(d, "/")] {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := in.Do(func() error {
		user := &syscall.Credential{Uid: nobody, Gid: nobody}
		p = startWith(t, role, dir, &syscall.SysProcAttr{Credential: user}, childAddr+"="+h.IPv4().String())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// join connects two peers.
func join(p [2]*process, a, b string) {
	p[0].t.Helper()
	p[0].say("connect " + b)
	p[1].say("connect " + a)
	both(p, "done")
}

func pairOn(t *testing.T, hosts []*engines.Host) [2]*process {
	t.Helper()
	p := [2]*process{startOn(t, hosts[0]), startOn(t, hosts[1])}
	join(p, p[0].line("address "), p[1].line("address "))
	return p
}

// Unprivileged processes of two hosts move data in both directions and check all of it. One of other
// processes is killed meanwhile: its peer gets an error, and the rest goes on to the end.
func TestTwoHosts(t *testing.T) {
	hosts := twoHosts(t)
	others, victims := pairOn(t, hosts), pairOn(t, hosts)
	for _, v := range victims {
		v.say("forever write")
		v.line("done")
	}
	rounds := max(1, *eachBytes/peerBytes)
	for i, how := range []string{"write", "read", "send"} {
		for r := range rounds {
			if i == 1 && r == rounds/2 {
				victims[0].kill()
			}
			transfer(others, how)
		}
		t.Logf("%s: %d bytes in each direction", how, rounds*peerBytes)
	}
	if got := victims[1].line("error: "); !strings.Contains(got, verbs.StatusRetryExceeded.String()) {
		t.Errorf("the peer of the killed process got %q", got)
	}
	transfer(pairOn(t, hosts), "write")
}

// The interface of a device is deleted: its processes are told so, not only that their connection has ended.
func TestReasonOfTheEnd(t *testing.T) {
	hosts := twoHosts(t)
	p := pairOn(t, hosts)
	p[0].say("fatal")
	p[0].line("done")
	link, err := hosts[0].Netlink().LinkByName(topo.IfName)
	if err == nil {
		err = hosts[0].Netlink().LinkDel(link)
	}
	if err != nil {
		t.Fatal(err)
	}
	if why := p[0].line("ended:"); !strings.Contains(why, "the device of "+topo.IfName+" has ended: ") {
		t.Errorf("the process was told%s", why)
	}
	p[0].line("done")
}

// again moves data until that fails, and opens the device anew. fatal: it must have ended.
func (p *peer) again(dir string, fatal bool) (*peer, error) {
	var err error
	for n := 0; err == nil; n++ {
		if err = p.transfer("write"); n == 0 {
			fmt.Println("runs")
		}
	}
	if !fatal && errors.Is(err, verbs.ErrGone) {
		return nil, err
	}
	if fatal { // after completions of flushed work requests, or without
		for e := range p.dev.Events() {
			if e.Type == verbs.EventDeviceFatal {
				err = nil
				break
			}
		}
		if err != nil {
			return nil, fmt.Errorf("no event of the end of the device: %w", err)
		}
	}
	if err := p.dev.Close(); err != nil {
		return nil, err
	}
	next, err := openPeer(dir)
	for end := time.Now().Add(testkit.Patience); err != nil && time.Now().Before(end); next, err = openPeer(dir) {
		time.Sleep(10 * time.Millisecond) // until the next agent serves
	}
	return next, err
}

// The agent is upgraded, and killed and started again, while processes move data. Its processes are told
// so and open the device again; their peers get an error.
func TestAgentAgain(t *testing.T) {
	hosts := twoHosts(t)
	for name, restart := range map[string]func(){
		"upgrade": func() { must(t)(hosts[0].Product("attach", "--upgrade", topo.IfName)) },
		"kill": func() {
			st, err := loader.ReadState(hosts[0].LoaderOptions().RunDir, topo.IfName)
			if err != nil {
				t.Fatal(err)
			}
			fd, err := unix.PidfdOpen(st.AgentPID, 0)
			if err == nil {
				err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			ctx := testkit.Context(t)
			if err := waitEnd(ctx, fd); err != nil {
				t.Fatal(err)
			}
			must(t)(hosts[0].Product("attach", topo.IfName))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pairOn(t, hosts)
			transfer(p, "write")
			p[0].say("again fatal")
			p[1].say("again error")
			both(p, "runs")
			restart()
			join(p, p[0].line("address "), p[1].line("address "))
			for _, how := range []string{"write", "read", "send"} {
				transfer(p, how)
			}
		})
	}
}

func must(t *testing.T) func(string, error) {
	return func(out string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// waitEnd waits for the end of a process by its descriptor.
func waitEnd(ctx context.Context, fd int) error {
	defer unix.Close(fd)
	for ctx.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1000)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return ctx.Err()
}

// Programs that use connections do the same: the server's Accept and the client's Recv return that the device is
// gone, and what they open next connects again.
func TestConnectedAgentAgain(t *testing.T) {
	hosts := twoHosts(t)
	client, server := startRoleOn(t, "connected", hosts[0], hosts[0]), startRoleOn(t, "connected", hosts[1], hosts[1])
	client.line("ready")
	server.line("ready")
	meet := func() {
		t.Helper()
		addr := server.tell("listen")
		server.say("accept")
		client.tell("dial " + addr)
		server.line("done ")
		client.tell("send")
		server.tell("recv")
	}
	meet()
	client.say("end")
	server.say("gone")
	must(t)(hosts[1].Product("attach", "--upgrade", topo.IfName))
	t.Logf("the client of a server whose agent was upgraded: %s", client.line("done "))
	server.line("done ")
	meet()
	client.say("lost")
	must(t)(hosts[0].Product("attach", "--upgrade", topo.IfName))
	client.line("done ")
	meet()
}

// An agent rejects connections to a port where nothing listens, also if no process has used its device yet. Without
// a host, the attempt ends with the search for the neighbour.
func TestNobodyListens(t *testing.T) {
	hosts := twoHosts(t)
	client := startRoleOn(t, "connected", hosts[0], hosts[0])
	client.line("ready")
	client.say("dial " + netip.AddrPortFrom(hosts[1].IPv4(), 7174).String())
	if got := client.line("error: "); !strings.Contains(got, "nothing listens at this service ID") {
		t.Error(got)
	}
	client = startRoleOn(t, "connected", hosts[0], hosts[0])
	client.line("ready")
	client.say("dial 10.53.0.77:7174") // no host has it
	got := client.line("error: ")
	if !strings.Contains(got, cm.ErrUnreachable.Error()) || !strings.Contains(got, "10.53.0.77 on eth0: the neighbour does not answer") {
		t.Error(got)
	}
	t.Log(got)
}

// A program in another network namespace than the interface uses the device as one in its own does: with another
// interface of that name, and without any.
func TestOtherNamespace(t *testing.T) {
	hosts := twoHosts(t)
	for _, other := range []namespace{hosts[1], noInterface{}} {
		p := [2]*process{startRoleOn(t, "peer", hosts[0], other), startOn(t, hosts[1])}
		join(p, p[0].line("address "), p[1].line("address "))
		for _, how := range []string{"write", "read", "send"} {
			transfer(p, how)
		}
		c := [2]*process{startRoleOn(t, "connected", hosts[0], other), startRoleOn(t, "connected", hosts[1], hosts[1])}
		c[0].line("ready")
		c[1].line("ready")
		for i := range c {
			addr := c[i].tell("listen")
			c[i].say("accept")
			c[1-i].tell("dial " + addr)
			c[i].line("done ")
			c[1-i].tell("send")
			c[i].tell("recv")
		}
	}
}
