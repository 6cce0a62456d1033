// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// Many take and release one lease, which removes its file each time: never do two have it.
func TestLeaseIsExclusive(t *testing.T) {
	dir := t.TempDir()
	var holders, taken atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				l, err := takeLease(dir, "eth0", leaseControl)
				if errors.Is(err, errLeased) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d have the lease", n)
				}
				taken.Add(1)
				holders.Add(-1)
				l.release()
			}
		})
	}
	all.Wait()
	if taken.Load() == 0 {
		t.Error("nobody had it")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// Asking who has a lease does not keep another one from taking it.
func TestAskingTakesNothing(t *testing.T) {
	dir := t.TempDir()
	l, err := takeLease(dir, "eth0", leaseAgent)
	if err != nil {
		t.Fatal(err)
	}
	if pid := leasePID(dir, "eth0", leaseAgent); pid != os.Getpid() {
		t.Errorf("in process %d, want %d", pid, os.Getpid())
	}
	l.release()
	stop := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				AgentAlive(dir, "eth0")
			}
		}
	})
	for range 500 {
		lock, err := TakeLock(dir, "eth0")
		if err != nil {
			t.Fatal(err)
		}
		lock.Release()
	}
	close(stop)
	asking.Wait()
}

// An engine waits for a process that has its lease to clean, however long that stalls, and for no engine.
func TestEngineLeaseWaits(t *testing.T) {
	for cleans, stall := range map[bool]time.Duration{false: time.Second, true: 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			other, err := takeEngineLease(dir, "eth0")
			if err != nil {
				t.Fatal(err)
			}
			if cleans {
				other.cleans()
			}
			time.AfterFunc(stall, other.release)
			l, err := waitEngineLease(dir, "eth0")
			if errors.Is(err, ErrEngineRunning) == cleans {
				t.Errorf("another process has the lease for %v and cleans: %t: %v", stall, cleans, err)
			}
			if l != nil {
				l.release()
			}
			time.Sleep(stall) // until the other one has released it
		})
	}
}

// The holder gives up the lease after an attempt to take it, before the look at who has it.
func TestLeaseHolderGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		take := func() (*lease, error) {
			if tries++; tries <= engineTries {
				return nil, ErrEngineRunning
			}
			return &lease{}, nil
		}
		holder := func() string {
			if tries == engineTries {
				return ""
			}
			return "1" + cleaning
		}
		if l, err := awaitLease(take, holder); l == nil {
			t.Error(err)
		}
	})
}

// An agent that ends has the lease of its engine for longer than its own.
func TestEngineEndsAfterAgent(t *testing.T) {
	if dir := os.Getenv("TEST_AGENT"); dir != "" {
		agent, err := takeLease(dir, "eth0", leaseAgent)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := takeEngineLease(dir, "eth0"); err != nil {
			t.Fatal(err)
		}
		ends := make(chan os.Signal, 1)
		signal.Notify(ends, unix.SIGTERM)
		os.Stdout.WriteString("locked\n")
		<-ends
		agent.release()
		time.Sleep(200 * time.Millisecond)
		os.Exit(0)
	}
	dir := t.TempDir()
	c := exec.Command(os.Args[0], "-test.run=^TestEngineEndsAfterAgent$")
	c.Env = append(os.Environ(), "TEST_AGENT="+dir)
	out := testkit.Must1(c.StdoutPipe())(t)
	testkit.Must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill() // if endEngine has failed
		_ = c.Wait()         // endEngine kills an agent that does not run in time to end by itself
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("%q, %v", line, err)
	}
	l, err := endEngine(dir, "eth0")
	if err != nil {
		t.Fatal(err)
	}
	l.release()

	// An engine without an agent is that of another program, and is not ended.
	own := testkit.Must1(takeEngineLease(dir, "eth0"))(t)
	defer own.release()
	if _, err := endEngine(dir, "eth0"); !errors.Is(err, ErrEngineRunning) {
		t.Errorf("an engine of another program: %v", err)
	}
}

// Another process has control and does not end: it is named after the patience of
// the caller. When it is killed, control is free.
func TestControlOfAStuckProcess(t *testing.T) {
	if dir := os.Getenv("TEST_CONTROL"); dir != "" {
		if _, err := takeLease(dir, "eth0", leaseControl); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("locked\n")
		time.Sleep(time.Minute)
		return
	}
	require.Root(t)
	o := Options{RunDir: t.TempDir(), Patience: 50 * time.Millisecond}
	c := exec.Command(os.Args[0], "-test.run=^TestControlOfAStuckProcess$")
	c.Env = append(os.Environ(), "TEST_CONTROL="+o.RunDir)
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
	_, err = TakeControl(o, "eth0", "eth1")
	if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), fmt.Sprintf("in process %d (", c.Process.Pid)) {
		t.Errorf("while another process has control: %v", err)
	}
	if who := leaseHolder(o.RunDir, "eth1", leaseControl); who != "" {
		t.Errorf("eth1 stays with %s", who)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	control, err := TakeControl(o, "eth0")
	if err != nil {
		t.Fatal(err)
	}
	control.Release()
	control.Release()
}
