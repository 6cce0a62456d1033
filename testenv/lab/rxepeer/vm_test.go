// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMachine goes through what a test may ask of a machine, and ends with a machine that dies.
func TestMachine(t *testing.T) {
	ctx := testContext(t)
	n := testNet(t)
	extra := filepath.Join(t.TempDir(), "extra")
	if err := os.WriteFile(extra, []byte("#!/bin/sh\necho extra $1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	vm, err := Boot(ctx, Config{
		Name: "m", Fresh: true, CPUs: 2, NICs: []NIC{NIC{Net: n}.at("10.77.0.1/24")}, Files: map[string]string{"/usr/bin/extra": extra},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Close()

	t.Run("commands", func(t *testing.T) {
		res, err := vm.Run(ctx, "extra", "word")
		if err != nil || res.Stdout != "extra word\n" {
			t.Errorf("got %+v, %v", res, err)
		}
		res, err = vm.Run(ctx, "sh", "-c", "nproc; exit 7")
		if got, ok := IsExit(err); !ok || got.ExitCode != 7 || res.Stdout != "2\n" {
			t.Errorf("got %+v, %v", res, err)
		}
		if _, err := vm.Run(ctx, "nonesuch"); err == nil || !strings.Contains(err.Error(), "nonesuch") {
			t.Errorf("a missing program: %v", err)
		}
		if _, err := vm.RunCmd(ctx, Cmd{Argv: []string{"sleep", "60"}, Timeout: 100 * time.Millisecond}); err == nil || !strings.Contains(err.Error(), "timed out") {
			t.Errorf("a command over its time: %v", err)
		}
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		if _, err := vm.Run(short, "sleep", "6100"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller out of time: %v", err)
		}
		gone := "for i in $(seq 1500); do ps | grep '[s]leep 6100' || exit 0; sleep 0.2; done; exit 1"
		if res, err := vm.Run(ctx, "sh", "-c", gone); err != nil {
			t.Errorf("the command goes on without its caller: %v\n%s", err, res.Stdout)
		}
	})

	t.Run("background", func(t *testing.T) {
		var live bytes.Buffer
		p, err := vm.StartCmd(ctx, Cmd{Argv: []string{"sh", "-c", "echo up; exec sleep 60"}, Stdout: &live})
		if err != nil {
			t.Fatal(err)
		}
		for out := ""; out != "up\n"; out, _ = p.Output() {
			time.Sleep(10 * time.Millisecond)
			if ctx.Err() != nil {
				t.Fatal("no output while the command runs")
			}
		}
		if err := p.Signal(unix.SIGTERM); err != nil {
			t.Error(err)
		}
		if res, err := p.Wait(ctx); err == nil || res.Signal != "terminated" || live.String() != "up\n" {
			t.Errorf("got %+v, %v, live %q", res, err, live.String())
		}
	})

	t.Run("files", func(t *testing.T) {
		data := bytes.Repeat([]byte("0123456789abcdef"), 70000) // several chunks
		if err := vm.Put(ctx, "/tmp/new/file", data, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := vm.Get(ctx, "/tmp/new/file"); err != nil || !bytes.Equal(got, data) {
			t.Errorf("got %d bytes of %d, %v", len(got), len(data), err)
		}
	})

	t.Run("without its network", func(t *testing.T) {
		if res, err := vm.Run(ctx, "sh", "-c", "ip link set eth0 down && cat /sys/class/net/eth0/operstate"); err != nil || res.Stdout != "down\n" {
			t.Errorf("got %+v, %v", res, err)
		}
	})

	t.Run("modules", func(t *testing.T) {
		// Each loads at need, as it would on a full Debian.
		script := `set -e
ip link add i0 type ifb; ip link add v0 type veth peer name v1
for q in fq netem "tbf rate 1mbit burst 10k latency 10ms" htb prio; do tc qdisc add dev v0 root $q; tc qdisc del dev v0 root; done
tc qdisc add dev v0 clsact; bpftool prog >/dev/null; bpftool map >/dev/null; test -d /sys/fs/bpf; test -r /sys/kernel/btf/vmlinux`
		if _, err := vm.Run(ctx, "sh", "-c", script); err != nil {
			t.Error(err)
		}
	})

	t.Run("panic", func(t *testing.T) {
		_, err := vm.Run(ctx, "sh", "-c", "echo c > /proc/sysrq-trigger; sleep 60")
		if err == nil || !strings.Contains(err.Error(), "is gone") || !strings.Contains(err.Error(), "sysrq triggered crash") {
			t.Errorf("error %v, want one that shows the panic", err)
		}
		if _, err := vm.Run(ctx, "true"); err == nil || !strings.Contains(err.Error(), "is gone") {
			t.Errorf("afterwards: %v", err)
		}
	})

	if err := vm.Close(); err != nil {
		t.Error(err)
	}
	if err := vm.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if hasLink(t, n, TapName("m", 0)) {
		t.Error("the tap is still there")
	}
	if _, err := os.Stat(filepath.Dir(vm.Console)); !os.IsNotExist(err) {
		t.Errorf("temporary files are still there: %v", err)
	}
}
