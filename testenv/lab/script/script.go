// SPDX-License-Identifier: Apache-2.0

// Package script has what the scripts of the commands share (testscript): commands for exit codes and two hosts in
// network namespaces.
package script

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// Command is a command of scripts.
type Command = func(ts *testscript.TestScript, neg bool, args []string)

// Commands returns the commands that the scripts of a program have besides testscript's own, and more:
//
//	exits N COMMAND ARGS...   runs a command that must exit with status N; the commands a and b are also possible
//	a N [PROGRAM] ARGS...     runs softroce-xdp or another program of this project on host a, with pins and state of its own
//	b N [PROGRAM] ARGS...     likewise on host b
//	traffic KBYTES            sends RDMA WRITEs from a to b and checks every byte
//	traffic KBYTES while COMMAND ARGS...
//	                          sends so much before the command, goes on while it runs,
//	                          and sends so much after it; not one packet may be lost
//	eventually N COMMAND...   tries `exits` until it holds, for five minutes
//	unused HOST               waits until no program uses the device of host a or b
//	healthy HOST ARGS...      runs `status --check ARGS` on host a or b, which must find no problem; it is tried again
//	                          for five minutes if all that it names is an agent that stands still
//	trips COMMAND...          runs a ping that must succeed; it is tried again for five minutes if all that it
//	                          says is that the peer was silent
//	agent VAR                 sets VAR to the pid of a's agent
//	prometheus FILE           reads metrics, as Prometheus does
func Commands(more map[string]Command) map[string]Command {
	all := map[string]Command{
		"exits":      exits,
		"eventually": eventually,
		"a":          func(ts *testscript.TestScript, neg bool, args []string) { onHost(ts, "a", args) },
		"b":          func(ts *testscript.TestScript, neg bool, args []string) { onHost(ts, "b", args) },
		"unused":     unused,
		"healthy":    healthy,
		"trips":      trips,
		"traffic":    traffic,
		"agent":      agentPID,
		"prometheus": readMetrics,
	}
	maps.Copy(all, more)
	return all
}

// exits is the command of that name.
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
	got, command := 0, args[1:]
	if command[0] == "a" || command[0] == "b" {
		command = hostCommand(ts, command[0], command[1:])
	}
	err = ts.Exec(command[0], command[1:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s exits %d, want %d", command[0], got, want)
	}
	return nil
}

// Patience is how long a script waits for what comes within seconds on an idle machine.
const Patience = 5 * time.Minute

func eventually(ts *testscript.TestScript, neg bool, args []string) {
	var err error
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = tryExits(ts, args); err == nil {
			return
		}
	}
	ts.Fatalf("after %v: %v", Patience, err)
}

// onHost is the command a or b. Its arguments are an exit status and those of hostCommand.
func onHost(ts *testscript.TestScript, host string, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: %s N [PROGRAM] COMMAND ARGS", host)
	}
	exits(ts, false, slices.Insert(slices.Clone(args), 1, host))
}

// hostCommand returns the command that runs a program in the network namespace of host a or b: softroce-xdp unless the
// first argument names another one of this project. nsenter, and not ip netns exec, which would hide the bpf file system.
func hostCommand(ts *testscript.TestScript, host string, args []string) []string {
	program, host := "softroce-xdp", strings.ToUpper(host)
	if len(args) > 0 && strings.HasPrefix(args[0], "softroce-") {
		program, args = args[0], args[1:]
	}
	return append([]string{"nsenter", "--net=" + ts.Getenv(host), program,
		"--pin-root", ts.Getenv(host + "_PINS"), "--run-dir", ts.Getenv(host + "_RUN")}, args...)
}
