// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// The test binary is the command, too, when this is set.
const asCommand = "ROCELOAD_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(compare.Run(LoadCommand()))
	}
	os.Exit(m.Run())
}

func roceload(t *testing.T, h *topo.Host, args ...string) *topo.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := h.Command(self, args...)
	c.Env = append(os.Environ(), asCommand+"=1")
	return c
}

func TestClientAndServers(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(3), StaticNeighbours: true})
	var servers []*topo.Cmd
	var outs []*bytes.Buffer
	for i := 2; i <= 3; i++ {
		s := roceload(t, top.Host(i), "server", "--json", "--drop", "0.01")
		out := &bytes.Buffer{}
		s.Stdout = out
		stderr, err := s.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := stderr.Read(make([]byte, 256)); err != nil { // "listening"
			t.Fatal(err)
		}
		servers, outs = append(servers, s), append(outs, out)
	}
	to := top.Host(2).IPv4().String() + "," + top.Host(3).IPv4().String()
	out, err := roceload(t, top.Host(1), "client", "--to", to, "--bytes", "1000000", "--size", "10000", "--json").Output()
	if err != nil {
		t.Fatalf("client: %v\n%s", err, out)
	}
	totals := 0
	for line := range strings.Lines(string(out)) {
		var v struct {
			Total *struct {
				Bytes, Retransmits uint64
			}
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("client printed %q: %v", line, err)
		}
		if v.Total != nil {
			totals++
			if v.Total.Bytes != 1_000_000 || v.Total.Retransmits == 0 {
				t.Errorf("summary: %s", line)
			}
		}
	}
	if totals != 2 {
		t.Errorf("%d summaries, want one per destination:\n%s", totals, out)
	}
	for i, s := range servers {
		if err := unix.Kill(s.Process.Pid, unix.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(); err != nil {
			t.Errorf("server: %v", err)
		}
		lines := strings.Split(strings.TrimSpace(outs[i].String()), "\n")
		var last arrival
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
			t.Fatalf("server printed %q: %v", outs[i], err)
		}
		if last.Bytes != 1_000_000 || last.Mismatches != 0 || last.Dropped == 0 {
			t.Errorf("server: %+v", last)
		}
	}
}

func TestMessagesAndExitCodes(t *testing.T) {
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"client"}, 1, `required flag(s) "to"`},
		{[]string{"client", "--to", "nowhere"}, 1, "unable to parse IP"},
		{[]string{"client", "--to", top.Host(2).IPv4().String(), "--pmtu", "1000"}, 2, "use 256"},
		{[]string{"client", "--to", "192.0.2.1"}, 2, "network is unreachable"},
		{[]string{"server", "--addr", "192.0.2.1"}, 2, "cannot assign requested address"},
		{[]string{"server", "--drop", "7"}, 2, "0 to 1"},
	} {
		out, err := roceload(t, top.Host(1), c.args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("roceload %v: %v, %s; want exit code %d and %q", c.args, err, out, c.code, c.want)
		}
	}
	start := time.Now()
	out, err := roceload(t, top.Host(1), "server", "--time", "50ms").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "listening on 10.53.0.1") || time.Since(start) > 5*time.Minute {
		t.Errorf("server: %v, %s", err, out)
	}
}
