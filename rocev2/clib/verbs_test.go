// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
)

// Unmodified programs of Debian run with the library between two hosts in network namespaces, each with an agent. The
// scripts of testdata have the command
//
//	pair PROGRAM ARGS   runs PROGRAM ARGS on b as the server, and PROGRAM ARGS 10.53.0.2 on a when the server listens; both
//	                    must exit with status 0 and print no invalid data. stdout and stderr are those of the client; the files server.out and
//	                    server.err have those of the server. With ! at least one of the two must fail.
//	                    GID4 and GID6 in ARGS stand for the GID index of an address of IPv4 and IPv6
func TestPrograms(t *testing.T) {
	require.Root(t)
	requireVerbs(t)
	require.Command(t, "setpriv", "ibv_devices", "ucx_perftest", "mpirun", "mpicc", "fi_pingpong")
	library := t.TempDir()
	makeLibrary(t, library)
	compile(t, library, "program")
	compile(t, library, "load")
	compile(t, library, "connect")
	compileMPI(t, library)
	testscript.Run(t, testscript.Params{
		Dir: "testdata", RequireExplicitExec: true, Cmds: script.Commands(map[string]script.Command{"pair": pair}),
		Condition: func(name string) (bool, error) {
			if name != "long" {
				return false, fmt.Errorf("no condition %q", name)
			}
			return long, nil
		},
		Setup: script.With(script.Build(t, "softroce-xdp"), func(env *testscript.Env) error {
			env.Setenv("VERBS", library)
			withSanitizer(t, env)
			for name, n := range amounts {
				env.Setenv(name, strconv.Itoa(n))
			}
			return script.BuildHosts(env)
		}),
	})
}

// compileMPI makes the program of MPI. It has no sanitizer: the libraries of MPI keep memory.
func compileMPI(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("mpicc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", filepath.Join(dir, "mpi"), "testdata/mpi.c").CombinedOutput(); err != nil {
		t.Fatalf("compile mpi.c: %v\n%s", err, out)
	}
}

// amounts are how much load.txt and connect.txt do, by the variables of the script. Builds for long tests do more.
var amounts = map[string]int{"CYCLES": 240, "QUEUES": 1000, "COMPLETIONS": 10000, "KILLED": 20, "ORDERS": 20, "CONNECTIONS": 100}

// long is whether the test has the time for amounts of which the agent's memory would show a leak.
var long bool

// libraries are the links to the libraries that `make verbs` makes.
var libraries = []string{"libibverbs.so", "librdmacm.so"}

// builtLibraries are the contents of the libraries. Tests of a process make them once.
var builtLibraries = sync.OnceValues(func() (built [][]byte, err error) {
	dir, err := os.MkdirTemp("", "clib")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("make", "-C", "../..", "--no-print-directory", "verbs", "VERBS="+dir, "SANITIZE="+sanitizer())
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make verbs: %w\n%s", err, out)
	}
	for _, name := range libraries {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		built = append(built, content)
	}
	return built, nil
})

// makeLibrary makes the libraries in a directory, as `make verbs` does.
func makeLibrary(t *testing.T, dir string) {
	t.Helper()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) { // programs of other users load it
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	built := testkit.Must1(builtLibraries())(t)
	for i, name := range libraries {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name+".1"), built[i], 0o755))
		testkit.Must(t, os.Symlink(name+".1", filepath.Join(dir, name)))
	}
}

// hang is how long a program may take that has a second of work.
const hang = 4 * time.Minute

// pair is the command of that name. Programs that were late run again.
func pair(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: pair PROGRAM ARGS")
	}
	server, client, err := pairOnce(ts, args)
	for try := 1; try < lateTries && !neg && wasLate(args[0], err); try++ {
		ts.Logf("again: %v", err)
		server, client, err = pairOnce(ts, args)
	}
	for name, b := range map[string]*bytes.Buffer{"client.out": client.out, "client.err": client.err, "server.out": server.out, "server.err": server.err} {
		ts.Check(os.WriteFile(ts.MkAbs(name), b.Bytes(), 0o600))
	}
	ts.Check(ts.Exec("sh", "-c", "cat client.out; cat client.err >&2"))
	switch {
	case neg && err == nil:
		ts.Fatalf("%s: both programs exit with status 0, want an error", strings.Join(args, " "))
	case !neg && err != nil:
		ts.Fatalf("%v", err)
	}
}

// pairOnce runs both programs. The error has what they have printed.
func pairOnce(ts *testscript.TestScript, args []string) (server, client hostProgram, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	server = onHost(ctx, ts, "B", args...)
	ts.Check(server.cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- server.cmd.Wait() }()
	err = listens(ctx, server.cmd.Process.Pid, ts.Getenv("B"), ended)
	client = onHost(ctx, ts, "A", append(args, ts.Getenv("B_IP"))...)
	if err == nil {
		err = client.cmd.Run()
	}
	if err != nil {
		cancel() // a server without its client waits for ever
	}
	err = errors.Join(err, <-ended, invalidData(client.out.String()), invalidData(server.out.String()))
	if err != nil {
		err = fmt.Errorf("%s: %w\nclient:\n%s%sserver:\n%s%s", strings.Join(args, " "), err, client.out, client.err, server.out, server.err)
	}
	return server, client, err
}

// hostProgram is a program that runs in the network namespace of a host.
type hostProgram struct {
	cmd      *exec.Cmd
	out, err *bytes.Buffer
}

func onHost(ctx context.Context, ts *testscript.TestScript, host string, args ...string) hostProgram {
	for i, a := range args {
		if gid, ok := gids[a]; ok {
			args = slices.Clone(args)
			args[i] = indexOf(ctx, ts, host, gid)
		}
	}
	if args[0] != "sh" { // a script gives RUNTIME to its program
		args = append([]string{"env", ts.Getenv("RUNTIME")}, args...)
	}
	p := hostProgram{exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + ts.Getenv(host)}, args...)...), &bytes.Buffer{}, &bytes.Buffer{}}
	p.cmd.Env = append(os.Environ(), "PATH="+ts.Getenv("PATH"), "RUNTIME="+ts.Getenv("RUNTIME"), "LD_LIBRARY_PATH="+ts.Getenv("VERBS"),
		"SOFTROCE_RUN_DIR="+ts.Getenv(host+"_RUN"), "SOFTROCE_LOG=1")
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	return p
}

// gids are the GIDs as ibv_devinfo prints them, by the words of scripts that stand for their indexes.
var gids = map[string]*regexp.Regexp{
	"GID4": regexp.MustCompile(`GID\[ *(\d+)\]:\t+::ffff:10\.`),
	"GID6": regexp.MustCompile(`GID\[ *(\d+)\]:\t+f[de][0-9a-f]*:`),
}

// indexOf is the index of the first GID of a host that matches.
func indexOf(ctx context.Context, ts *testscript.TestScript, host string, gid *regexp.Regexp) string {
	p := onHost(ctx, ts, host, "ibv_devinfo", "-v")
	ts.Check(p.cmd.Run())
	found := gid.FindSubmatch(p.out.Bytes())
	if found == nil {
		ts.Fatalf("no GID matches %s:\n%s", gid, p.out)
	}
	return string(found[1])
}

// listens waits until a process is in a network namespace and listens at a TCP port there, where nothing else does.
func listens(ctx context.Context, pid int, namespace string, ended chan error) error {
	want, err := os.Stat(namespace)
	if err != nil {
		return err
	}
	for {
		if is, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid)); err == nil && os.SameFile(is, want) && hasListener(pid) {
			return nil
		}
		select {
		case err := <-ended:
			ended <- err
			return errors.New("the server has ended before it listened")
		case <-ctx.Done():
			return fmt.Errorf("the server does not listen: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// hasListener reports whether a socket listens in the network namespace of a process.
func hasListener(pid int) bool {
	for _, file := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, file))
		if err == nil && strings.Contains(string(b), ":0000 0A ") { // state LISTEN (linux/include/net/tcp_states.h)
			return true
		}
	}
	return false
}
