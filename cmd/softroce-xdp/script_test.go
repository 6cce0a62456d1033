// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	gplayers "github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/probe"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/confine"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

func TestMain(m *testing.M) {
	confine.Main()
	poolMapProcess() // the maps of `pool map` start this binary
	testscript.Main(m, map[string]func(){"softroce-xdp": func() {
		// LACKS lists features that this kernel shall seem to be without.
		if names := os.Getenv("LACKS"); names != "" {
			if err := probe.Deny(strings.Split(names, ",")...); err != nil {
				panic(err)
			}
		}
		main()
	}})
}

// The scripts of testdata/script need nothing; those of testdata/net are run as
// root on two hosts in network namespaces.

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", Cmds: commands, UpdateScripts: os.Getenv("UPDATE") != "", RequireExplicitExec: true,
	})
}

func TestNetScripts(t *testing.T) {
	require.Root(t)
	require.Command(t, "nsenter", "unshare", "setpriv", "ip", "bpftool", "mount", "clang-19")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/net", Cmds: commands, Setup: buildHosts, UpdateScripts: os.Getenv("UPDATE") != "", RequireExplicitExec: true,
	})
}

// commands that the scripts have besides testscript's own:
//
//	exits N COMMAND ARGS...   runs a command that must exit with status N
//	a N ARGS...               softroce-xdp on host a, with pins and state of its own
//	b N ARGS...               likewise on host b
//	traffic KBYTES            sends RDMA WRITEs from a to b and checks every byte
//	traffic KBYTES while COMMAND ARGS...
//	                          sends so much before the command, goes on while it runs,
//	                          and sends so much after it; not one packet may be lost
//	eventually N COMMAND...   tries `exits` until it holds, for five seconds
//	capture FILE [bad]        writes a pcap of two packets, or with one ICRC wrong
//	barfile FILE [short|future]  writes a file that serves as the BAR of a card, but is too
//	                          short, or of a version that is not known
//	livecard SOCKET [stop]    serves a card whose nodes 2 to 4 get data, or ends it
//	engine REASON             opens an engine on a's eth0 in this process, which must be refused with
//	                          loader.ErrEngineRunning and that reason
//	agent VAR                 sets VAR to the pid of a's agent
//	prometheus FILE           reads metrics, as Prometheus does
//	forge HOST ARGS...        runs softroce-xdp ARGS on a until SIGINT, with forged packets for both hosts, while
//	                          the egress program of HOST (a or b) is removed; file forged has its output
var commands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"exits":      exits,
	"eventually": eventually,
	"a":          func(ts *testscript.TestScript, neg bool, args []string) { onHost(ts, "A", args) },
	"b":          func(ts *testscript.TestScript, neg bool, args []string) { onHost(ts, "B", args) },
	"traffic":    traffic,
	"agent":      agentPID,
	"engine":     engineRefused,
	"capture":    capture,
	"barfile":    barFile,
	"livecard":   liveCard,
	"cardpair":   cardPair,
	"prometheus": readMetrics,
	"forge":      forge,
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if err := tryExits(ts, args); err != nil {
		ts.Fatalf("%v", err)
	}
}

func tryExits(ts *testscript.TestScript, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: exits N COMMAND ARGS")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s exits %d, want %d", args[1], got, want)
	}
	return nil
}

// patience is how long a script waits for what comes within seconds on an idle machine.
const patience = 5 * time.Minute

func eventually(ts *testscript.TestScript, neg bool, args []string) {
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = tryExits(ts, args); err == nil {
			return
		}
	}
	ts.Fatalf("after %v: %v", patience, err)
}

// onHost runs the product in a host's network namespace. nsenter, and not ip
// netns exec, which would hide the bpf file system.
func onHost(ts *testscript.TestScript, host string, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: a N COMMAND ARGS")
	}
	exits(ts, false, append([]string{args[0], "nsenter", "--net=" + ts.Getenv(host), "softroce-xdp",
		"--pin-root", ts.Getenv(host + "_PINS"), "--run-dir", ts.Getenv(host + "_RUN")}, args[1:]...))
}

type hostsKey struct{}

// buildHosts makes two hosts, h1 and h2, for a script.
func buildHosts(env *testscript.Env) error {
	top, err := topo.New(topo.Spec{Hosts: []topo.HostSpec{{NoOffload: true}, {NoOffload: true}}, StaticNeighbours: true})
	if err != nil {
		return err
	}
	pins := fmt.Sprintf("/sys/fs/bpf/srx-test-%d-%s", os.Getpid(), filepath.Base(env.WorkDir))
	env.Defer(func() {
		for i, h := range []string{"a", "b"} {
			o := loader.Options{PinRoot: pins + h, RunDir: filepath.Join(env.WorkDir, "run-"+h)}
			_ = top.Host(i + 1).Do(func() error { return loader.Detach("eth0", o) })
			_, _ = loader.Clean(o)
			os.Remove(o.PinRoot)
		}
		if err := top.Close(); err != nil {
			env.T().Log("take the topology down: ", err)
		}
	})
	for i, h := range []string{"A", "B"} {
		host := top.Host(i + 1)
		env.Setenv(h, host.NamespacePath())
		env.Setenv(h+"_NAME", host.Namespace())
		env.Setenv(h+"_PINS", pins+strings.ToLower(h))
		env.Setenv(h+"_RUN", filepath.Join(env.WorkDir, "run-"+strings.ToLower(h)))
		env.Setenv(h+"_IP", host.IPv4().String())
	}
	// The race detector lets each command wait a second at its end, unless told otherwise.
	env.Setenv("GORACE", "atexit_sleep_ms=10")
	env.Values[hostsKey{}] = top
	return nil
}

// traffic writes from host a to host b.
func traffic(ts *testscript.TestScript, neg bool, args []string) {
	kbytes, err := strconv.Atoi(args[0])
	ts.Check(err)
	top := ts.Value(hostsKey{}).(*topo.Topology)
	if len(args) == 1 {
		_, err := transfer(top, uint64(kbytes)*1000, nil)
		ts.Check(err)
		return
	}
	if len(args) < 4 || args[1] != "while" {
		ts.Fatalf("usage: traffic KBYTES [while COMMAND ARGS]")
	}
	report, err := transfer(top, uint64(kbytes)*1000, func() {
		if args[2] == "a" {
			onHost(ts, "A", args[3:])
		} else {
			ts.Check(ts.Exec(args[2], args[3:]...))
		}
	})
	ts.Check(err)
	if report.Retransmits+report.NAKs+report.Timeouts > 0 {
		ts.Fatalf("traffic: %d retransmits, %d NAKs, %d timeouts; want none", report.Retransmits, report.NAKs, report.Timeouts)
	}
}

// transfer sends so many bytes from the first host to the second; with a
// command, before it runs and after it has run, and meanwhile.
func transfer(top *topo.Topology, bytes uint64, while func()) (load.Report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var ends [2]*load.Endpoint
	for i := range ends {
		host := top.Host(i + 1)
		ep, err := load.Open(load.Config{Local: host.IPv4(), Do: host.Do})
		if err != nil {
			return load.Report{}, err
		}
		defer ep.Close()
		ends[i] = ep
	}
	received := func() load.Received { return ends[1].Received()[top.Host(1).IPv4()] }
	// A patient sender: what it sends again was lost, not late on a busy machine.
	flow := load.Flow{To: top.Host(2).IPv4(), Bytes: bytes, MinRTO: time.Minute, GiveUp: patience}
	if while != nil {
		flow.Bytes = 0 // until its context ends
	}
	var report load.Report
	var err error
	sending, end := context.WithCancel(ctx)
	defer end()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		report, err = ends[0].Send(sending, flow)
	}()
	if while != nil {
		reached := func(n uint64) {
			for received().Bytes < n {
				select {
				case <-sent: // failed
					return
				case <-time.After(time.Millisecond):
				}
			}
		}
		reached(bytes)
		while()
		reached(received().Bytes + bytes)
		end()
	}
	<-sent
	if err != nil {
		return report, err
	}
	got, counters := received(), ends[1].Counters()
	if got.Bytes < report.Bytes || report.Bytes < bytes || got.Mismatches > 0 || counters.BadICRC > 0 || ends[0].Counters().BadICRC > 0 {
		return report, fmt.Errorf("sent %d bytes, received %+v, %+v", report.Bytes, got, counters)
	}
	return report, nil
}

func agentPID(ts *testscript.TestScript, neg bool, args []string) {
	b, err := os.ReadFile(filepath.Join(ts.Getenv("A_RUN"), "eth0.json"))
	ts.Check(err)
	var s loader.State
	ts.Check(json.Unmarshal(b, &s))
	ts.Setenv(args[0], strconv.Itoa(s.AgentPID))
}

// readMetrics reads a file, or stdout, by the parser of the Prometheus project.
func readMetrics(ts *testscript.TestScript, neg bool, args []string) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(ts.ReadFile(args[0])))
	ts.Check(err)
	if len(all) == 0 {
		ts.Fatalf("%s has no metrics", args[0])
	}
}

// capture writes a file of two packets.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	ts.Check(writeCapture(f, len(args) > 1))
}

// writeCapture writes two HELLOs as Ethernet frames; if bad, the second one's ICRC is
// wrong.
func writeCapture(to io.Writer, bad bool) error {
	w := pcapgo.NewWriter(to)
	if err := w.WriteFileHeader(65536, gplayers.LinkTypeEthernet); err != nil {
		return err
	}
	ethernet := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00}
	for i := range 2 {
		var buf [rocev2.MaxHelloLen]byte
		n, err := rocev2.BuildHello(buf[:], netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), rocev2.Hello{Node: 7, Nonce: uint64(i)})
		if err != nil {
			return err
		}
		if bad && i == 1 {
			buf[20+8+12] ^= 1 // the version field of the body
		}
		frame := append(ethernet, buf[:n]...)
		info := gopacket.CaptureInfo{Timestamp: time.Unix(int64(i), 0), CaptureLength: len(frame), Length: len(frame)}
		if err := w.WritePacket(info, frame); err != nil {
			return err
		}
	}
	return nil
}
