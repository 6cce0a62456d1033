// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/faults"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// commandsPage has the tables that the tests with the tag long write.
const commandsPage = "docs/program/verbs-commands.md"

// commandLoss is the share of RoCEv2 packets that the second column of the table loses.
const commandLoss = 0.05

// commandMTU is the MTU of the links, for packets of 4096 bytes.
const commandMTU = 4200

// commandHost is where a command runs: a namespace with an agent, or a machine with rxe.
type commandHost struct {
	device string // name of the RDMA device
	gid    string // index of the GID of its IPv4 address
	addr   string // address at which its servers listen
	// timeout of RC in perftest: 4.096 us * 2^timeout. 17 is 537 ms: seven of them are longer than a pause of a busy machine.
	timeout int
	start   func(ctx context.Context, argv []string) (process, error)
}

// process is a program that runs on a host.
type process interface {
	listens(ctx context.Context) error // waits until it listens
	wait() (stdout, stderr string, err error)
	kill()
}

// requireVerbs is for tests that build the library and run programs of Debian with it.
func requireVerbs(t *testing.T) {
	t.Helper()
	require.Command(t, "make", "gcc", "nsenter", "ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw", "rping")
	for _, header := range []string{"/usr/include/infiniband/verbs.h", "/usr/include/rdma/rdma_cma.h"} {
		if _, err := os.Stat(header); err != nil {
			require.Skip(t, "needs the headers of verbs: apt-get install libibverbs-dev librdmacm-dev")
		}
	}
}

// requireCommands is for tests that need the programs, and virtual machines.
func requireCommands(t *testing.T) {
	t.Helper()
	require.Root(t)
	requireVerbs(t)
	if err := rxepeer.CheckHost(); err != nil {
		require.Skip(t, err.Error())
	}
}

// newNet makes a network for virtual machines that the test ends.
func newNet(t *testing.T, mtu int) *rxepeer.Net {
	t.Helper()
	n := testkit.Must1(rxepeer.NewNet(mtu))(t)
	t.Cleanup(func() { n.Close() })
	return n
}

// boot boots a virtual machine that the test ends.
func boot(ctx context.Context, t *testing.T, c rxepeer.Config) *rxepeer.VM {
	t.Helper()
	vm := testkit.Must1(rxepeer.Boot(ctx, c))(t)
	t.Cleanup(func() { vm.Close() })
	t.Log(vm.Describe())
	return vm
}

// commandLab is two hosts: in network namespaces with agents and a box between them, or one of them is a machine with rxe.
type commandLab struct {
	server, client *commandHost
	box            *faults.Box // nil: nothing is lost
}

// newCommandLab makes a lab that the test ends.
func newCommandLab(t *testing.T) *commandLab {
	t.Helper()
	top := topo.ForTest(t, topo.Spec{Hosts: []topo.HostSpec{{NoOffload: true}, {NoOffload: true}}, MTU: commandMTU, StaticNeighbours: true})
	box, err := faults.NewDisorder(top, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	software := newSoftware(t)
	return &commandLab{
		client: software.host(t, top.Host(1).NamespacePath(), top.Host(1).IPv4().String()),
		server: software.host(t, top.Host(2).NamespacePath(), top.Host(2).IPv4().String()), box: box,
	}
}

// lose has the box lose a share of the packets from now on.
func (l *commandLab) lose(share float64) { l.box.Set(faults.Spec{Loss: share}) }

// lost is how many packets the box has lost.
func (l *commandLab) lost() uint64 {
	if l.box == nil {
		return 0
	}
	return l.box.Counts().Lost
}

// software is the library and the command that a test has built.
type software struct{ library, bin string }

func newSoftware(t *testing.T) software {
	t.Helper()
	s := software{t.TempDir(), script.Build(t, "softroce-xdp")}
	makeLibrary(t, s.library)
	return s
}

// host attaches eth0 of a network namespace until the test ends.
func (s software) host(t *testing.T, namespace, addr string) *commandHost {
	t.Helper()
	run := t.TempDir()
	pins := fmt.Sprintf("/sys/fs/bpf/srx-test-%d-%s", os.Getpid(), filepath.Base(filepath.Dir(run))+filepath.Base(run))
	xdp := func(args ...string) ([]byte, error) {
		args = append([]string{"--net=" + namespace, filepath.Join(s.bin, "softroce-xdp"), "--pin-root", pins, "--run-dir", run}, args...)
		return exec.Command("nsenter", args...).CombinedOutput()
	}
	t.Cleanup(func() {
		if out, err := xdp("detach", "eth0"); err != nil {
			t.Errorf("detach: %v\n%s", err, out)
		}
		os.Remove(pins)
	})
	if out, err := xdp("attach", "--nic", "--rate", "10G", "--pacer", "none", "eth0"); err != nil {
		t.Fatalf("attach: %v\n%s", err, out)
	}
	h := &commandHost{device: "softroce_eth0", addr: addr, timeout: 17}
	h.start = func(ctx context.Context, argv []string) (process, error) {
		p := &localProcess{cmd: exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + namespace}, argv...)...), namespace: namespace}
		p.cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+s.library, "SOFTROCE_RUN_DIR="+run, "SOFTROCE_LOG=1")
		p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
		p.ended = make(chan error, 1)
		if err := p.cmd.Start(); err != nil {
			return nil, err
		}
		go func() { p.ended <- p.cmd.Wait() }()
		return p, nil
	}
	info, err := h.start(t.Context(), []string{"ibv_devinfo", "-v"})
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, err := info.wait()
	found := gids["GID4"].FindStringSubmatch(stdout)
	if err != nil || found == nil {
		t.Fatalf("ibv_devinfo: %v, want a GID of IPv4:\n%s%s", err, stdout, stderr)
	}
	h.gid = found[1]
	return h
}

// localProcess is a process in a network namespace of this kernel.
type localProcess struct {
	cmd       *exec.Cmd
	namespace string
	out, err  bytes.Buffer
	ended     chan error
}

func (p *localProcess) listens(ctx context.Context) error {
	return listens(ctx, p.cmd.Process.Pid, p.namespace, p.ended)
}

func (p *localProcess) wait() (stdout, stderr string, err error) {
	err = <-p.ended
	return p.out.String(), p.err.String(), err
}

func (p *localProcess) kill() { _ = p.cmd.Process.Kill() } // it may have ended
