// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"errors"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// serve runs an agent in this process and returns a client for it.
func serve(t *testing.T) *rpc.Client {
	t.Helper()
	here, there := net.Pipe()
	s := &Server{SetUp: func(SetUp) Hello { return Hello{Kernel: "test"} }}
	done := make(chan error)
	go func() { done <- s.Serve(there) }()
	c := rpc.NewClient(here)
	t.Cleanup(func() {
		c.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

func call[T any](t *testing.T, c *rpc.Client, method string, args any) T {
	t.Helper()
	var reply T
	if err := c.Call(Service+"."+method, args, &reply); err != nil {
		t.Fatal(method, err)
	}
	return reply
}

// finish reads a command's output up to its end.
func finish(t *testing.T, c *rpc.Client, id uint64) Output {
	t.Helper()
	var all Output
	for !all.Done {
		got := call[Output](t, c, "Read", id)
		got.Stdout = append(all.Stdout, got.Stdout...)
		got.Stderr = append(all.Stderr, got.Stderr...)
		all = got
	}
	return all
}

func TestCommand(t *testing.T) {
	c := serve(t)
	id := call[uint64](t, c, "Start", Start{
		Argv: []string{"sh", "-c", `cat; echo "$WORD" >&2; pwd; exit 3`}, Env: []string{"WORD=err"}, Dir: "/", Stdin: []byte("in\n"),
	})
	got := finish(t, c, id)
	if string(got.Stdout) != "in\n/\n" || string(got.Stderr) != "err\n" || got.ExitCode != 3 {
		t.Errorf("got %+v", got)
	}
	if err := c.Call(Service+".Read", id, new(Output)); err == nil {
		t.Error("a finished command can still be read")
	}
}

func TestCommandNotFound(t *testing.T) {
	c := serve(t)
	for _, argv := range [][]string{nil, {"/does/not/exist"}} {
		if err := c.Call(Service+".Start", Start{Argv: argv}, new(uint64)); err == nil {
			t.Errorf("%q started", argv)
		}
	}
}

// TestTimeout has a child that would outlive the shell: the whole group must go.
func TestTimeout(t *testing.T) {
	c := serve(t)
	start := time.Now()
	got := finish(t, c, call[uint64](t, c, "Start", Start{Argv: []string{"sh", "-c", "sleep 600; true"}, Timeout: 50 * time.Millisecond}))
	if !got.TimedOut || got.ExitCode != -1 || got.Signal != "killed" {
		t.Errorf("got %+v", got)
	}
	if took := time.Since(start); took > 5*time.Minute {
		t.Errorf("took %v", took)
	}
}

func TestSignal(t *testing.T) {
	c := serve(t)
	id := call[uint64](t, c, "Start", Start{Argv: []string{"sleep", "60"}})
	call[Empty](t, c, "Signal", Signal{ID: id, Number: int(syscall.SIGTERM)})
	if got := finish(t, c, id); got.Signal != "terminated" || got.TimedOut {
		t.Errorf("got %+v", got)
	}
}

// TestDaemon leaves a child behind that keeps stdout: the command has ended all the same.
func TestDaemon(t *testing.T) {
	c := serve(t)
	start := time.Now()
	id := call[uint64](t, c, "Start", Start{Argv: []string{"sh", "-c", "sleep 600 & echo $!"}})
	got := finish(t, c, id)
	child, err := strconv.Atoi(strings.TrimSpace(string(got.Stdout)))
	if got.ExitCode != 0 || err != nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Errorf("the child is gone: %v", err)
	}
	if took := time.Since(start); took > 5*time.Minute {
		t.Errorf("took %v, as long as the child", took)
	}
}

// TestBacklog lets a command print more than the agent buffers before anyone reads.
func TestBacklog(t *testing.T) {
	c := serve(t)
	const size = 3 * backlog
	id := call[uint64](t, c, "Start", Start{Argv: []string{"head", "-c", "12582912", "/dev/zero"}})
	if got := finish(t, c, id); len(got.Stdout) != size || got.ExitCode != 0 {
		t.Errorf("got %d bytes of %d, exit code %d", len(got.Stdout), size, got.ExitCode)
	}
}

// TestSideBySide shows that a call that waits does not hold up another.
func TestSideBySide(t *testing.T) {
	c := serve(t)
	slow := call[uint64](t, c, "Start", Start{Argv: []string{"sleep", "60"}})
	var report Output
	reading := c.Go(Service+".Read", slow, &report, nil)
	if got := finish(t, c, call[uint64](t, c, "Start", Start{Argv: []string{"echo", "quick"}})); string(got.Stdout) != "quick\n" {
		t.Errorf("got %+v", got)
	}
	select {
	case <-reading.Done: // after readWait, as the machine stalls
		if report.Done {
			t.Errorf("the slow command has ended: %+v", report)
		}
		reading = c.Go(Service+".Read", slow, new(Output), nil)
	default:
	}
	call[Empty](t, c, "Signal", Signal{ID: slow, Number: int(syscall.SIGKILL)})
	<-reading.Done
}

func TestFiles(t *testing.T) {
	c := serve(t)
	path := filepath.Join(t.TempDir(), "new/dir/file")
	call[Empty](t, c, "Put", Chunk{Path: path, Mode: 0o600, Data: []byte("hello ")})
	call[Empty](t, c, "Put", Chunk{Path: path, Offset: 6, Data: []byte("there")})
	got := call[Chunk](t, c, "Get", Chunk{Path: path, Offset: 3, Len: 100})
	if !bytes.Equal(got.Data, []byte("lo there")) {
		t.Errorf("got %q", got.Data)
	}
	if got := call[Chunk](t, c, "Get", Chunk{Path: "/proc/self/status", Len: MaxChunk}); !strings.Contains(string(got.Data), "Name:") {
		t.Errorf("a file of /proc: %q", got.Data)
	}
	if err := c.Call(Service+".Get", Chunk{Path: path, Len: MaxChunk + 1}, new(Chunk)); err == nil {
		t.Error("a chunk above the limit was read")
	}
	// A shorter file replaces a longer one whole.
	call[Empty](t, c, "Put", Chunk{Path: path, Data: []byte("x")})
	if got := call[Chunk](t, c, "Get", Chunk{Path: path, Len: 100}); string(got.Data) != "x" {
		t.Errorf("got %q", got.Data)
	}
}

func TestGetAll(t *testing.T) {
	c := serve(t)
	dir := t.TempDir()
	err := errors.Join(os.WriteFile(filepath.Join(dir, "one"), []byte("1\n"), 0o644), os.WriteFile(filepath.Join(dir, "none"), nil, 0o644),
		os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	got := call[map[string][]byte](t, c, "GetAll", dir)
	if len(got) != 2 || string(got["one"]) != "1\n" || len(got["none"]) != 0 {
		t.Errorf("got %q", got)
	}
	if err := c.Call(Service+".GetAll", filepath.Join(dir, "nonesuch"), &got); err == nil {
		t.Error("a folder that does not exist was read")
	}
}
