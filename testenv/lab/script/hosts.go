// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

type hostsKey struct{}

// BuildHosts makes two hosts, h1 and h2, for a script.
func BuildHosts(env *testscript.Env) error {
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

// Hosts returns the two hosts of a script.
func Hosts(ts *testscript.TestScript) *topo.Topology { return ts.Value(hostsKey{}).(*topo.Topology) }

// traffic writes from host a to host b.
func traffic(ts *testscript.TestScript, neg bool, args []string) {
	kbytes, err := strconv.Atoi(args[0])
	ts.Check(err)
	top := Hosts(ts)
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
			onHost(ts, "a", args[3:])
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
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
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
	// A patient sender: what it sends again was lost, not late on a busy machine. Its window fits the ring of a veth.
	flow := load.Flow{To: top.Host(2).IPv4(), Bytes: bytes, Window: 128, MinRTO: time.Minute, GiveUp: Patience}
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

// agentPID is the command agent.
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
