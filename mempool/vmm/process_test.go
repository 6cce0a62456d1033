// SPDX-License-Identifier: Apache-2.0

package vmm_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// childEnv has the test binary run one of children instead of the tests.
const childEnv = "VMM_TEST_CHILD"

var children = map[string]func(){}

func TestMain(m *testing.M) {
	vmm.Main(openStore) // the tests' maps start this binary as handler and guardian
	if f := children[os.Getenv(childEnv)]; f != nil {
		f()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// faultyStore is a memory store that does not answer, or late, or fails, READs of pages from a number on.
type faultyStore struct {
	memStore
	silentFrom int64
	late       time.Duration // 0: no answer
	closed     string        // file that Close makes; "" for none
}

// Close is called in the handler.
func (s *faultyStore) Close() error {
	if s.closed == "" {
		return nil
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1000, Max: 1000}); err != nil {
		return err
	}
	return os.WriteFile(s.closed, nil, 0o600)
}

func (s *faultyStore) ReadPages(list []vmm.Request) {
	var answered, later []vmm.Request
	for _, r := range list {
		if r.Page < s.silentFrom {
			answered = append(answered, r)
		} else {
			later = append(later, r)
		}
	}
	s.memStore.ReadPages(answered)
	if s.late > 0 && len(later) > 0 {
		time.AfterFunc(s.late, func() { s.memStore.ReadPages(later) })
	}
}

var errRevoked = errors.New("the key was revoked")

// openStore opens a store by its name: settings like "delay=1ms fail=10", or "" for a store
// without faults.
func openStore(name string) (vmm.Store, error) {
	s := &faultyStore{silentFrom: math.MaxInt64}
	for setting := range strings.FieldsSeq(name) {
		key, value, _ := strings.Cut(setting, "=")
		switch number, err := strconv.ParseInt(value, 10, 64); key {
		case "delay", "late":
			d, err := time.ParseDuration(value)
			if err != nil {
				return nil, err
			}
			if key == "late" {
				s.late = d
			} else {
				s.SetDelay(d)
			}
		case "closed":
			s.closed = value
		case "wait": // until the file is there; another one shows that it waits
			if err := os.WriteFile(value+".waits", nil, 0o600); err != nil {
				return nil, err
			}
			for {
				if _, err := os.Stat(value); err == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
		case "files": // that the handler may open
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(number), Max: 1000}); err != nil {
				return nil, err
			}
		case "silent":
			s.silentFrom = number
		case "fail":
			s.SetErrors(func(page int64) error {
				if page >= number {
					return errRevoked
				}
				return nil
			}, nil)
		default:
			return nil, fmt.Errorf("%q is not a setting (%w)", setting, err)
		}
	}
	return s, nil
}

// newMap skips the test where maps are not possible.
func newMap(t testing.TB, c vmm.Config, store string) *vmm.Map {
	t.Helper()
	if err := vmm.Supported(); err != nil {
		require.Skip(t, err.Error())
	}
	m, err := vmm.NewMap(vmm.MapConfig{Config: c, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// guardianPID returns the child of a handler.
func guardianPID(t testing.TB, handler int) int {
	t.Helper()
	var pid int
	testkit.Eventually(t, fmt.Sprintf("handler %d has a guardian", handler), func() bool {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", handler))
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", handler, task.Name()))
			if f := strings.Fields(string(list)); len(f) > 0 {
				pid, err = strconv.Atoi(f[0])
				testkit.Must(t, err)
				return true
			}
		}
		return false
	})
	return pid
}

// signalLater sends a signal to processes from another process, for tests whose own goroutines
// do not run while an access waits.
func signalLater(t testing.TB, after time.Duration, signal string, pids ...int) {
	t.Helper()
	script := fmt.Sprintf("sleep %g; kill -%s", after.Seconds(), signal)
	for _, pid := range pids {
		script += fmt.Sprintf(" %d", pid)
	}
	cmd := exec.Command("sh", "-c", script)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
}
