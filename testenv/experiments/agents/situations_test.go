// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

func TestMain(m *testing.M) {
	Main()     // a process of a load of connections
	SoakMain() // a program of a soak
	flag.DurationVar(&patience, "administrator.patience", patience, "how long to wait for what must come about")
	// The groups of situations spend most of their time waiting.
	if err := flag.Set("test.parallel", fmt.Sprint(len(Groups))); err != nil {
		panic(err)
	}
	engines.Main(m)
}

// binaryEnv names the variable with the path of another binary to try, for example that of an
// earlier commit.
const binaryEnv = "SOFTROCE_ADMINISTRATOR_BINARY"

// Every situation has the outcome that the table says. The groups run at the same time.
func TestSituations(t *testing.T) {
	topo.RequireRoot(t)
	require.Command(t, "ip", "tc", "ethtool", "prlimit", "sysctl", "taskset", "renice")
	bin := os.Getenv(binaryEnv)
	if bin == "" {
		var err error
		if bin, err = engines.Binary(); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range Groups {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			r := &runner{bin: bin, group: &g}
			defer r.close(t)
			for _, s := range g.Situations {
				t.Run(strings.ReplaceAll(s.What, " ", "_"), func(t *testing.T) { r.run(t, &s) })
			}
		})
	}
}

// runner runs the situations of a group, as long as they succeed on the same hosts.
type runner struct {
	bin   string
	group *Group
	lab   *Lab
}

func (r *runner) close(t *testing.T) {
	t.Helper()
	if r.lab == nil {
		return
	}
	if err := r.lab.Close(); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(r.lab.dir); err != nil {
		t.Error(err)
	}
	r.lab = nil
}

// ready makes hosts where everything is in force, and returns what that is.
func (r *runner) ready(t *testing.T) (*Lab, Force) {
	t.Helper()
	if r.lab == nil {
		dir, err := os.MkdirTemp("", "softroce-administrator-")
		if err != nil {
			t.Fatal(err)
		}
		if r.lab, err = NewLab(r.bin, dir, r.group); err != nil {
			r.lab = nil
			_ = os.RemoveAll(dir)
			t.Fatal(err)
		}
	}
	eventually(t, "before the change", func() error { return r.lab.Well(nil) })
	f, err := r.lab.Force()
	if err != nil {
		t.Fatal(err)
	}
	return r.lab, f
}

// run runs one situation: everything is in force, the change is made, the outcome is the expected
// one, the change is taken back, and everything is in force again.
func (r *runner) run(t *testing.T, s *Situation) {
	l, before := r.ready(t)
	ok := false
	defer func() {
		if !ok {
			log, _ := os.ReadFile(l.log())
			t.Logf("agent's log:\n%s", tail(string(log), 15))
			r.close(t)
		}
	}()
	undo, err := s.change(l)
	start := time.Now()
	if failed := err != nil; failed != (s.Outcome == Refused) {
		t.Fatalf("the change: %v", err)
	}
	switch s.Outcome {
	case Harmless, Refused:
		time.Sleep(1500 * time.Millisecond) // the agent compares once a second
		eventually(t, "harmless", func() error { return l.content() })
		s.checkTraffic(t, l)
	case Repaired:
		eventually(t, "repair", func() error { return l.Well(&before) })
		t.Logf("repaired, and seen to be in force, after %v", time.Since(start).Round(10*time.Millisecond))
		if log, err := os.ReadFile(l.log()); err == nil && !strings.Contains(string(log), "msg=repaired") {
			t.Error("the agent's log does not name the repair")
		}
	case Named:
		eventually(t, "named", func() error { return s.named(l) })
		took := time.Since(start)
		t.Logf("named after %v", took.Round(10*time.Millisecond))
		within := 2 * time.Second
		if s.Within != 0 {
			within = time.Duration(s.Within) * time.Second
		}
		if took > within {
			require.Missed(t, "noticed after %v", took)
		}
		s.checkTraffic(t, l)
	}
	if s.RemedyFirst {
		s.do(t, l, s.Remedy)
		eventually(t, "remedy", func() error { return l.Well(nil) })
	}
	if undo != nil {
		if err := undo(); err != nil {
			t.Fatalf("undo: %v", err)
		}
	}
	s.do(t, l, s.Undo)
	if !s.RemedyFirst {
		s.do(t, l, s.Remedy)
	}
	well := l.Well
	if s.Lingers {
		well = l.InForce
	}
	eventually(t, "in force at the end", func() error { return well(&before) })
	if n := l.traffic.wrong(); n != 0 {
		t.Fatalf("%d messages arrived with wrong bytes", n)
	}
	ok = true
}

// do runs a script that must succeed.
func (s *Situation) do(t *testing.T, l *Lab, script string) {
	t.Helper()
	if out, err := l.Do(script); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// change makes the change.
func (s *Situation) change(l *Lab) (undo func() error, err error) {
	if s.Change != nil {
		return s.Change(l)
	}
	out, err := l.Do(s.Command)
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", s.Command, err, out)
	}
	return nil, err
}
