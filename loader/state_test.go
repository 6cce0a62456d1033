// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStateRoundTrip(t *testing.T) {
	dir := t.TempDir()
	want := State{
		Interface: "eth0.7", Ifindex: 3, Netns: 4026531840, PinRoot: "/sys/fs/bpf/x", Version: "v1", Attached: time.Unix(1, 0).UTC(),
		XDPMode: "native", Egress: "clsact", OwnClsact: true, Pacer: "htb", OwnQdisc: true, Clock: "tai",
		RateFrom: "flag", NodeFile: "/etc/nodes.yaml", AgentPID: 77,
	}
	if err := writeState(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadState(dir, "eth0.7")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if err := removeState(dir, "eth0.7"); err != nil {
		t.Error(err)
	}
	if err := removeState(dir, "eth0.7"); err != nil {
		t.Errorf("removing twice: %v", err)
	}
	if _, err := ReadState(dir, "eth0.7"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after removal: %v", err)
	}
}

func TestDamagedState(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(statePath(dir, "eth0"), []byte(`{"interface": 3`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadState(dir, "eth0"); err == nil || !strings.Contains(err.Error(), "softroce-xdp detach eth0") {
		t.Errorf("%v", err)
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	if AgentAlive(dir, "eth0") {
		t.Error("an agent before the first")
	}
	l, err := TakeLock(dir, "eth0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TakeLock(dir, "eth0"); !errors.Is(err, ErrAgentRunning) {
		t.Errorf("second agent: %v", err)
	}
	if !AgentAlive(dir, "eth0") {
		t.Error("the agent is not seen")
	}
	l.Release()
	if AgentAlive(dir, "eth0") {
		t.Error("the agent is seen after its end")
	}
}

// The agent is another process here: it holds the lock until it is told to end.
func TestStopAgent(t *testing.T) {
	if dir := os.Getenv("TEST_STOP_AGENT"); dir != "" {
		if _, err := TakeLock(dir, "eth0"); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("locked\n")
		time.Sleep(10 * time.Minute)
		return
	}
	dir := t.TempDir()
	if err := StopAgent(dir, "eth0", time.Second); err != nil {
		t.Errorf("no agent: %v", err)
	}
	c := exec.Command(os.Args[0], "-test.run=^TestStopAgent$")
	c.Env = append(os.Environ(), "TEST_STOP_AGENT="+dir)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Process.Kill()
	if _, err := out.Read(make([]byte, 7)); err != nil {
		t.Fatal(err)
	}
	// Its lock says which process it is: no state file is needed.
	if err := StopAgent(dir, "eth0", time.Minute); err != nil {
		t.Error(err)
	}
	if AgentAlive(dir, "eth0") {
		t.Error("still alive")
	}
	_ = c.Wait()
}
