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
//
// No test shows that a machine's random numbers are its own: two machines restored from one state differ in them
// also without new random bytes, by the times of their interrupts.
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
	t.Run("names and addresses", func(t *testing.T) { checkIdentity(ctx, t, vms) })
	t.Run("clock", func(t *testing.T) { checkClock(ctx, t, a) })
	t.Run("wrong states", func(t *testing.T) { testWrongStates(ctx, t, config("w", "10.77.0.3"), states[0]) })

	t.Run("errors of the test", func(t *testing.T) { testOwnErrors(ctx, t, config("x", "10.77.0.4"), states[0]) })
	t.Run("time is over", func(t *testing.T) { testTimeIsOver(ctx, t, config("y", "10.77.0.5"), states[0]) })

	if err := os.Truncate(filepath.Join(states[0], devicesFile), 1000); err != nil {
		t.Fatal(err)
	}
	logged := captureLog(t)
	c, err := Boot(ctx, config("c", "10.77.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	t.Logf("%s\nlogged: %s", c.Describe(), logged)
	if c.Restored || !strings.Contains(logged.String(), "machine c boots") || !strings.Contains(c.Describe(), "not restored: ") {
		t.Errorf("restored: %v, from a damaged state", c.Restored)
	}
	if _, err := os.Stat(states[0]); !os.IsNotExist(err) {
		t.Errorf("the damaged state: %v", err)
	}
	if d := cmp.Diff(look(ctx, t, c), look(ctx, t, a)); d != "" {
		t.Errorf("a machine that booted (-) and one that was restored (+) differ:\n%s", d)
	}
}

// captureLog returns what is logged until the test ends. After it, machines are restored as before.
func captureLog(t *testing.T) *bytes.Buffer {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	before := noRestore.Load()
	t.Cleanup(func() {
		log.SetOutput(os.Stderr)
		noRestore.Store(before)
	})
	return &logged
}

// checkIdentity wants each machine to have its own name, MAC address and IP address, and no other.
func checkIdentity(ctx context.Context, t *testing.T, vms []*VM) {
	for _, vm := range vms {
		nic := vm.Config.NICs[0]
		want := fmt.Sprintf("%s\n127.0.1.1 %[1]s\n%s\n%s\n", vm.Config.Name, nic.MAC, nic.Addrs[0])
		got := out(ctx, t, vm, `hostname; grep 127.0.1.1 /etc/hosts; cat /sys/class/net/eth0/address
ip -4 -o address show dev eth0 | awk '{ print $4 }'`)
		if d := cmp.Diff(got, want); d != "" {
			t.Errorf("machine %s: got (-) and want (+) differ:\n%s", vm.Config.Name, d)
		}
	}
}

// testOwnErrors has machines whose configuration is at fault: they do not boot instead, and the state stays.
func testOwnErrors(ctx context.Context, t *testing.T, good Config, state string) {
	logged := captureLog(t)
	closed, err := NewNet(1400)
	if err == nil {
		err = closed.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	noNet, twice := good, good
	noNet.NICs = []NIC{NIC{Net: closed, MTU: 1400}.at("10.77.0.4/24")}
	twice.NICs = []NIC{NIC{Net: good.NICs[0].Net, MTU: 1400}.at("10.77.0.4/24", "10.77.0.4/24")}
	for _, tc := range []struct {
		config Config
		want   string
	}{{noNet, "enter network namespace"}, {twice, "setting the machine up: ip -batch"}} {
		vm, err := Boot(ctx, tc.config)
		if err == nil {
			vm.Close()
			t.Fatalf("no error, want one with %q", tc.want)
		}
		if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error %v, want one with %q", err, tc.want)
		}
	}
	if _, err := os.Stat(state); err != nil || logged.Len() > 0 || noRestore.Load() != nil {
		t.Errorf("the state: %v; logged: %s", err, logged)
	}
}

// testTimeIsOver has another process make states for longer than a machine waits, and then for longer than its caller
// waits.
func testTimeIsOver(ctx context.Context, t *testing.T, c Config, state string) {
	unlock, err := lockStates(ctx, filepath.Dir(state))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	c.MemoryMB = 800 // There is no state of it.
	c, err = c.complete()
	if err != nil {
		t.Fatal(err)
	}
	logged := captureLog(t)
	defer func(d time.Duration) { stateTimeout = d }(stateTimeout)
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if vm, err := Boot(short, c); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "states.lock") {
		t.Errorf("the caller's time is over: %v, %v", vm, err)
	}
	if !strings.Contains(logged.String(), "machine y is neither restored nor booted") || noRestore.Load() != nil {
		t.Errorf("the caller's time is over: logged: %s", logged)
	}
	stateTimeout = 100 * time.Millisecond
	if vm, reason, err := tryRestore(ctx, c); vm != nil || err != nil || !strings.Contains(reason, "states.lock") {
		t.Errorf("the state's time is over: %v, reason %q, %v", vm, reason, err)
	}
	if !strings.Contains(logged.String(), "machine y boots") || noRestore.Load() == nil {
		t.Errorf("the state's time is over: logged: %s", logged)
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
			if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the error is that time is over: %v", err)
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
cat /proc/sys/net/ipv6/conf/eth0/accept_dad`)
	mac := vm.Config.NICs[0].MAC
	linkLocal := regexp.MustCompile(`fe80:[0-9a-f:]*`)
	text = strings.ReplaceAll(text, mac.String(), "MAC")
	text = linkLocal.ReplaceAllString(text, "LINK-LOCAL")
	text = ofMemory.ReplaceAllString(text, "")
	kernel := out(ctx, t, vm, "dmesg -l emerg,alert,crit,err,warn | sed 's/^[^]]*] //'")
	return text + ofTime.ReplaceAllString(kernel, "")
}

// ofMemory are the sizes of file systems in memory. Two boots of the same kernel leave a few pages more or less.
var ofMemory = regexp.MustCompile(`,(size=\d+k|nr_inodes=\d+)`)

// ofTime are the lines of the kernel about clocks and time. Where the host lets a machine wait, there are some or none.
var ofTime = regexp.MustCompile(`(?im)^.*(clock|timer|tsc|calibrat|hogged CPU|took too long|sched: RT|rcu:|watchdog|` +
	`blocked for|hung_task|tainted|lockup|\bstall).*\n`)

func out(ctx context.Context, t *testing.T, vm *VM, script string) string {
	t.Helper()
	res, err := vm.Run(ctx, "sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	return res.Stdout
}
