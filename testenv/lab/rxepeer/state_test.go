// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestStates has two machines restored from a state that neither finds, at the same time. A third boots,
// because the state is damaged meanwhile, and is like them.
func TestStates(t *testing.T) {
	ctx := testContext(t)
	img := imageCopy(ctx, t)
	n := testNet(t)
	config := func(name, addr string) Config {
		extra := filepath.Join(t.TempDir(), "extra")
		if err := os.WriteFile(extra, []byte("extra"), 0o750); err != nil {
			t.Fatal(err)
		}
		return Config{
			Name: name, Image: img, Files: map[string]string{"/sbin/extra": extra}, Ports: []string{"one"},
			NICs: []NIC{NIC{Net: n, MTU: 1400}.at(addr + "/24")},
		}
	}
	vms, err := BootAll(ctx, config("a", "10.77.0.1"), config("b", "10.77.0.2"))
	if err != nil {
		t.Fatal(err)
	}
	a := vms[0]
	for _, vm := range vms {
		defer vm.Close()
		t.Log(vm.Describe())
		if !vm.Restored {
			t.Fatal("it was not restored")
		}
	}
	states, err := filepath.Glob(filepath.Join(filepath.Dir(img.Kernel), "*state-*"))
	if err != nil || len(states) != 1 {
		t.Fatalf("%q, %v; want one state and nothing that is left of making it", states, err)
	}
	t.Run("clock", func(t *testing.T) { checkClock(ctx, t, a) })
	t.Run("wrong states", func(t *testing.T) { testWrongStates(ctx, t, config("w", "10.77.0.3"), states[0]) })

	if err := os.Truncate(filepath.Join(states[0], devicesFile), 1000); err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	defer noRestore.Store(noRestore.Load())
	c, err := Boot(ctx, config("c", "10.77.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	t.Logf("%s\nlogged: %s", c.Describe(), &logged)
	if c.Restored || !strings.Contains(logged.String(), "machine c boots") {
		t.Errorf("restored: %v, from a damaged state", c.Restored)
	}
	if _, err := os.Stat(states[0]); !os.IsNotExist(err) {
		t.Errorf("the damaged state: %v", err)
	}
	if d := cmp.Diff(look(ctx, t, c), look(ctx, t, a)); d != "" {
		t.Errorf("a machine that booted (-) and one that was restored (+) differ:\n%s", d)
	}
}

// imageCopy is the image in a folder that has no states.
func imageCopy(ctx context.Context, t *testing.T) *Image {
	t.Helper()
	img, err := EnsureImage(ctx, Debian13)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{kernelFile, initrdFile, emulatorDir, manifestFile} {
		if err := os.Symlink(filepath.Join(filepath.Dir(img.Kernel), name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	img, err = openImage(dir)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// checkClock compares the machine's clock with this host's, which it is behind by clockLag and the time that
// setting it took.
func checkClock(ctx context.Context, t *testing.T, vm *VM) {
	before := time.Now()
	now, err := time.Parse(time.DateTime, strings.TrimSpace(out(ctx, t, vm, "date -u '+%F %T'"))) // whole seconds
	if err != nil {
		t.Fatal(err)
	}
	lag := clockLag(vm.Config.Name)
	earliest, latest := before.Add(-lag-vm.BootTime-time.Second), time.Now().Add(-lag)
	if now.Before(earliest) || now.After(latest) {
		t.Errorf("the clock is at %v, want %v to %v", now, earliest.UTC(), latest.UTC())
	}
}

// testWrongStates wants an error soon from each state that does not fit, and that it is gone then.
func testWrongStates(ctx context.Context, t *testing.T, c Config, good string) {
	c, err := c.complete()
	if err != nil {
		t.Fatal(err)
	}
	other := c
	other.Ports = []string{"one", "two"}
	for _, tc := range []struct {
		name   string
		config Config
		change func(dir string) error
	}{
		{"no devices", c, func(dir string) error { return os.Remove(filepath.Join(dir, devicesFile)) }},
		{"short devices", c, func(dir string) error { return os.Truncate(filepath.Join(dir, devicesFile), 1000) }},
		{"short memory", c, func(dir string) error {
			name := filepath.Join(dir, memoryFile)
			return errors.Join(os.Remove(name), os.WriteFile(name, make([]byte, 1<<20), 0o644))
		}},
		{"another machine", other, func(string) error { return nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			devices, err := os.ReadFile(filepath.Join(good, devicesFile))
			err = errors.Join(err, os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, devicesFile), devices, 0o644),
				os.Symlink(filepath.Join(good, memoryFile), filepath.Join(dir, memoryFile)), tc.change(dir))
			if err != nil {
				t.Fatal(err)
			}
			vm, err := restored(ctx, tc.config, dir)
			if err == nil {
				vm.Close()
				t.Fatal("the machine was restored")
			}
			first, _, _ := strings.Cut(err.Error(), "\nend of")
			t.Log(first)
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("the wrong state: %v", err)
			}
		})
	}
}

// look is what a test may find in a machine: interfaces, rxe devices, modules, files, and what the kernel warned of.
func look(ctx context.Context, t *testing.T, vm *VM) string {
	t.Helper()
	text := out(ctx, t, vm, `rdma link; rdma dev | sed 's/node_guid.*sys_image_guid.*//'; ip -br link; ip -o address | sed 's/valid_lft.*//'
cat /sys/class/infiniband/rxe0/ports/1/gids/[0-3]; cat /sys/class/net/eth0/tx_queue_len; tc qdisc show; ethtool -k eth0; ethtool -l eth0
lsmod | cut -d ' ' -f 1 | sort; mount; ls -l --time-style=+ /sbin/extra /dev/virtio-ports; env | sort; ulimit -a; nproc
cat /proc/sys/net/ipv6/conf/eth0/accept_dad; dmesg -l emerg,alert,crit,err,warn | sed 's/^[^]]*] //'`)
	mac := vm.Config.NICs[0].MAC
	linkLocal := regexp.MustCompile(`fe80:[0-9a-f:]*`)
	text = strings.ReplaceAll(text, mac.String(), "MAC")
	text = linkLocal.ReplaceAllString(text, "LINK-LOCAL")
	// What the kernel says where the host lets it wait.
	slow := regexp.MustCompile(`(?m)^.*(clocksource|hogged CPU|took too long|sched: RT|rcu:|watchdog).*\n`)
	return slow.ReplaceAllString(text, "")
}

func out(ctx context.Context, t *testing.T, vm *VM, script string) string {
	t.Helper()
	res, err := vm.Run(ctx, "sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	return res.Stdout
}

// TestRemoveOldStates has too many states, one of which was used last.
func TestRemoveOldStates(t *testing.T) {
	dir := t.TempDir()
	for i := range mostStates + 2 {
		name := filepath.Join(dir, fmt.Sprint(statePrefix, i))
		at := time.Now().Add(time.Duration(i-100) * time.Minute)
		if err := errors.Join(os.Mkdir(name, 0o755), os.Chtimes(name, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if !hasState(filepath.Join(dir, statePrefix+"0")) || hasState(filepath.Join(dir, statePrefix+"none")) {
		t.Error("hasState is wrong")
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, buildPrefix+"1"), 0o755), os.Mkdir(filepath.Join(dir, "sysroot"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := removeOldStates(dir); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"sysroot": true, statePrefix + "0": true}
	for i := 4; i < mostStates+2; i++ {
		want[fmt.Sprint(statePrefix, i)] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !want[e.Name()] {
			t.Errorf("%s is still there", e.Name())
		}
		delete(want, e.Name())
	}
	if len(want) > 0 {
		t.Errorf("removed: %v", want)
	}
}
