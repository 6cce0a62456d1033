// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// eventually waits until f succeeds.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: after %v: %v", what, patience, err)
		}
	}
}

// named returns nil once a line of status has the words of the situation.
func (s *Situation) named(l *Lab) error {
	said, well := l.Check()
	if well {
		return fmt.Errorf("status --check is content:\n%s", said)
	}
	for line := range strings.Lines(said) {
		if hasAll(strings.ToLower(line), s.Words) {
			return nil
		}
	}
	return fmt.Errorf("no line of status has %q:\n%s", s.Words, said)
}

func hasAll(line string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(line, strings.ToLower(w)) {
			return false
		}
	}
	return true
}

// checkTraffic checks that traffic goes on, or that it does not.
func (s *Situation) checkTraffic(t *testing.T, l *Lab) {
	t.Helper()
	if s.Stops {
		eventually(t, "traffic stops", func() error {
			if bps := l.traffic.rate(200 * time.Millisecond); bps != 0 {
				return fmt.Errorf("traffic of %.1f Mbit/s", bps/1e6)
			}
			return nil
		})
		return
	}
	eventually(t, "traffic goes on", func() error {
		if l.traffic.rate(100*time.Millisecond) == 0 {
			return errors.New("no traffic")
		}
		return nil
	})
}
