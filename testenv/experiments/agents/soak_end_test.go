// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// A soak that has ended by an error has not passed.
func TestSoakConcludes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{{nil, "# verdict: passed"}, {errors.New("host 2: detach: no"), "# verdict: FAILED: 1 problems"}} {
		var lines []string
		s := &soak{SoakConfig: SoakConfig{Line: func(line string) { lines = append(lines, line) }}}
		s.conclude(c.err)
		if got := lines[len(lines)-1]; got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
		if text := strings.Join(s.result.Problems, "\n"); c.err != nil && !strings.Contains(text, c.err.Error()) {
			t.Errorf("%v: problems %q", c.err, text)
		}
	}
}

// All programs that have not ended within the limit are returned, not only the first one.
func TestSoakHungPrograms(t *testing.T) {
	ended, hung, alsoHung := &soakRun{exited: make(chan struct{})}, &soakRun{exited: make(chan struct{})}, &soakRun{exited: make(chan struct{})}
	close(ended.exited)
	if got := stillRunning([]*soakRun{hung, ended, alsoHung}, time.Millisecond); !slices.Equal(got, []*soakRun{hung, alsoHung}) {
		t.Errorf("%d programs", len(got))
	}
}

// Process 0 would be all processes of the group, and negative numbers groups. Signal 0 does nothing to them.
func TestSoakSignalsOwnAgents(t *testing.T) {
	s := &soak{SoakConfig: SoakConfig{Dir: "/no/such/directory"}}
	for _, pid := range []int{0, -1, os.Getpid()} {
		if err := s.signalOwn(pid, 0); err == nil {
			t.Errorf("process %d was signalled", pid)
		}
	}
}
