// SPDX-License-Identifier: Apache-2.0

package script

import (
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patient tries a command until it exits with status 0, for five minutes. again judges the output of a command that
// exits otherwise: a machine that stands still explains all of it, else the script fails at once.
func patient(ts *testscript.TestScript, command []string, again func(stdout, stderr string) bool) {
	for end := time.Now().Add(Patience); ; time.Sleep(100 * time.Millisecond) {
		err := tryExits(ts, append([]string{"0"}, command...))
		if err == nil {
			return
		}
		if !again(ts.ReadFile("stdout"), ts.ReadFile("stderr")) || time.Now().After(end) {
			ts.Fatalf("%v", err)
		}
	}
}

// healthy is the command of that name.
func healthy(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: healthy HOST ARGS")
	}
	patient(ts, append([]string{args[0], "status", "--check"}, args[1:]...), onlyLate)
}

// unused is the command of that name.
func unused(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: unused HOST")
	}
	for end := time.Now().Add(Patience); ; time.Sleep(100 * time.Millisecond) {
		if err := tryExits(ts, []string{"0", args[0], "status"}); err != nil {
			ts.Fatalf("%v", err)
		}
		out := ts.ReadFile("stdout")
		if strings.Contains(out, "processes 0, queue pairs 0, connections 0, regions 0") && !strings.Contains(out, "does not answer") {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("after %v a program still uses the device", Patience)
		}
	}
}

// lateProblem matches the problems that status names of an agent that stands still.
var lateProblem = regexp.MustCompile(`^  ! (the agent \(pid \d+\) lives but its heartbeat is .* old|` +
	`the agent does not report \(the last one is .* old\)|the device of \S+ does not answer )`)

// onlyLate reports whether status names problems, and only those of agents that stand still.
func onlyLate(stdout, stderr string) bool {
	problems := 0
	for line := range strings.Lines(stdout) {
		if !strings.Contains(line, "!") {
			continue
		}
		if !lateProblem.MatchString(line) {
			return false
		}
		problems++
	}
	return problems > 0
}

// trips is the command of that name.
func trips(ts *testscript.TestScript, neg bool, args []string) { patient(ts, args, onlyLost) }

const silentPeer = `has ended the connection|has become silent|no answer from`

var (
	lostTrip  = regexp.MustCompile(`^seq=\d+: .*(` + silentPeer + `)`)
	lostTrips = regexp.MustCompile(`(?m)^softroce-xdp: (\d+ of \d+ round trips? lost$|.*(` + silentPeer + `))`)
)

// onlyLost reports whether ping lost round trips, each of them to a host that was silent, and no data was wrong.
func onlyLost(stdout, stderr string) bool {
	for line := range strings.Lines(stdout) {
		if strings.HasPrefix(line, "seq=") && !lostTrip.MatchString(line) {
			return false
		}
	}
	return lostTrips.MatchString(stderr) // an error for wrong data has precedence
}
