// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

const childEnv = "RESIDENT_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "lock":
		fmt.Println(lockChild())
	case "limited":
		err := Lock()
		fmt.Println(errors.Is(err, os.ErrPermission), err)
	}
}

const chunk = 64 << 20

// lockChild locks its memory, uses and frees some, and uses some again.
func lockChild() error {
	if err := Lock(); err != nil {
		return err
	}
	touched() // the race detector keeps half as much about memory that was freed once
	debug.FreeOSMemory()
	first := locked()
	touched()
	second := locked()
	if second < first+chunk*9/10 {
		return fmt.Errorf("%d bytes are locked, and %d with %d more bytes", first, second, chunk)
	}
	// The runtime may still keep the chunk after one collection.
	for end := time.Now().Add(testkit.Patience); ; time.Sleep(10 * time.Millisecond) {
		debug.FreeOSMemory()
		freed := locked()
		if freed <= second-chunk/2 {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d bytes stay locked when they are free, of %d", freed, second)
		}
	}
	c := touched()
	if again := locked(); again < first+chunk*9/10 {
		return fmt.Errorf("%d bytes are locked after memory was freed and used again, want %d", again, first+chunk)
	}
	c[0]++
	return nil
}

func touched() []byte {
	b := make([]byte, chunk)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return b
}

// locked returns the bytes of this process that are in memory and locked. smaps would count a mapping twice that is
// merged with its neighbour while the file is read.
func locked() (sum int) {
	smaps, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		panic(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^Locked: +(\d+) kB$`).FindAllSubmatch(smaps, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		sum += n << 10
	}
	return sum
}

func child(t *testing.T, role string, attr *syscall.SysProcAttr) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), childEnv+"="+role), attr
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// Memory is locked as it is used. What is free again is not kept.
func TestLock(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur != unix.RLIM_INFINITY && !mayLock() {
		if err := Lock(); !errors.Is(err, os.ErrPermission) {
			t.Error(err)
		}
		return
	}
	if got := child(t, "lock", nil); got != "<nil>" {
		t.Error(got)
	}
}

// With a limit, Lock is refused: later mappings would fail.
func TestLockWithLimit(t *testing.T) {
	if os.Getuid() != 0 {
		return // TestLock has this case
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil || limit.Cur == unix.RLIM_INFINITY {
		limit.Cur = 8 << 20
		old := limit
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
			t.Fatal(err)
		}
		old.Cur = unix.RLIM_INFINITY
		t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old) })
	}
	got := child(t, "limited", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	if !strings.HasPrefix(got, "true lock memory: ") {
		t.Error(got)
	}
}

// A score that is lower already stays, and a lower one is set or refused with what it needs.
func TestProtect(t *testing.T) {
	if err := Protect(1000); err != nil {
		t.Error(err)
	}
	before, err := os.ReadFile(oomScore)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.WriteFile(oomScore, before, 0) })
	switch err := Protect(-900); {
	case errors.Is(err, os.ErrPermission):
		if !strings.Contains(err.Error(), "CAP_SYS_RESOURCE") {
			t.Error(err)
		}
	case err != nil:
		t.Error(err)
	default:
		if now, _ := os.ReadFile(oomScore); string(now) != "-900\n" {
			t.Errorf("the score is %q", now)
		}
	}
}
