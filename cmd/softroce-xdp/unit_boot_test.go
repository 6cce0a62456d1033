// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/confine"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
)

// systemdPath is systemd as process 1.
const systemdPath = "/lib/systemd/systemd"

// bootScript starts systemd as process 1 of namespaces of its own, whose network has the interface eth0. It may not
// change settings of the kernel. $1 is the directory with the units and the installed binary.
const bootScript = `set -e
mount --make-rprivate /
mount -t proc proc /proc
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount -t sysfs sysfs /sys
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs /run
mount --bind "$1" /mnt
ip link set lo up
ip link add eth0 type veth peer name eth1
ip address add 10.53.0.1/24 dev eth0
ip link set eth1 up
ip link set eth0 up
export container=softroce SYSTEMD_UNIT_PATH=/mnt/units SYSTEMD_LOG_TARGET=null
exec ` + systemdPath + ` --system --unit=test.target
`

// booted is a systemd that was started with bootScript.
type booted struct {
	t    *testing.T
	init int // process ID of its init in the test's namespace
}

// boot starts systemd with the unit, for a device with a group. What depends on udev, which does not run, is left out.
func boot(t *testing.T) *booted {
	t.Helper()
	require.Root(t)
	require.Command(t, "unshare", "nsenter", "mount", "ip", "systemctl", systemdPath)
	dir := t.TempDir()
	unit, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(unit), "@PREFIX@", "/mnt")
	text = regexp.MustCompile(`(?m)^(BindsTo|After)=.*\n`).ReplaceAllString(text, "")
	text = strings.Replace(text, "--foreground", "--foreground --nic --nic-group daemon --nic-mode 660", 1)
	text = strings.Replace(text, "[Service]\n", "[Service]\nStandardError=append:/run/agent.log\n", 1)
	if !confine.MayRaiseLimits() {
		text = strings.Replace(text, "[Service]\n", "[Service]\nCapabilityBoundingSet=CAP_IPC_LOCK\n", 1)
	}
	self, err := os.ReadFile("/proc/self/exe") // testscript.Main makes it the program of its name
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"units/softroce-xdp@.service": []byte(text),
		"units/test.target":           []byte("[Unit]\nWants=softroce-xdp@eth0.service\n"),
		"boot.sh":                     []byte(bootScript),
		"sbin/softroce-xdp":           self,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	cmd := exec.Command("unshare", "--pid", "--mount", "--net", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child", "sh", dir+"/boot.sh", dir)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	b := &booted{t: t}
	b.eventually("systemd starts", func() bool {
		list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
		_, err := fmt.Sscan(string(list), &b.init)
		return err == nil && b.run("systemctl", "show", "--value", "-p", "LoadState", "softroce-xdp@eth0") == "loaded"
	})
	return b
}

// command returns a command in the namespaces of systemd.
func (b *booted) command(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"-t", fmt.Sprint(b.init), "--pid", "--mount", "--net", "--uts", "--ipc", "--cgroup"}, args...)...)
}

// run returns the output of a command, with the error at its end.
func (b *booted) run(args ...string) string {
	if b.init == 0 {
		return ""
	}
	out, err := b.command(args...).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s%v", out, err)
	}
	return strings.TrimSpace(string(out))
}

func (b *booted) eventually(what string, done func() bool) {
	b.t.Helper()
	for end := time.Now().Add(script.Patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("%s: not after %v\n%s", what, script.Patience, b.log())
		}
	}
}

// log returns what systemd and the agent say.
func (b *booted) log() string {
	return b.run("systemctl", "--no-pager", "status", "softroce-xdp@eth0") + "\n" + b.run("cat", "/run/agent.log")
}

// systemd itself starts, reloads and stops the unit.
func TestBootedUnit(t *testing.T) {
	b := boot(t)
	state := func() string { return b.run("systemctl", "show", "--value", "-p", "ActiveState", "softroce-xdp@eth0") }
	b.eventually("the unit ends its start", func() bool { s := state(); return s == "active" || s == "failed" })
	if s := state(); s != "active" {
		t.Fatalf("the unit is %s\n%s", s, b.log())
	}
	const program = "/mnt/sbin/softroce-xdp"
	b.eventually("status names no problem", func() bool { return b.command(program, "status", "--check", "eth0").Run() == nil })
	if got := b.run("stat", "-c", "%a %G", "/run/softroce-xdp/eth0.sock"); got != "660 daemon" {
		t.Errorf("the socket of the device is %q", got)
	}
	pid := b.run("systemctl", "show", "--value", "-p", "MainPID", "softroce-xdp@eth0")
	process := b.run("cat", "/proc/"+pid+"/status", "/proc/"+pid+"/oom_score_adj")
	wanted := []string{`(?m)^Seccomp:\s2$`, `(?m)^NoNewPrivs:\s1$`, `(?m)^VmLck:\s+[1-9]`}
	if confine.MayRaiseLimits() {
		wanted = append(wanted, `(?m)^-900$`)
	}
	for _, want := range wanted {
		if !regexp.MustCompile(want).MatchString(process) {
			t.Errorf("no %s in\n%s", want, process)
		}
	}
	if got := b.run("systemctl", "reload", "softroce-xdp@eth0"); got != "" {
		t.Errorf("reload: %s\n%s", got, b.log())
	}
	b.eventually("an upgrade", func() bool { // before, the process may end without what it does at its end
		return strings.Count(b.run("cat", "/run/agent.log"), "agent works") == 2 && state() == "active"
	})
	if again := b.run("systemctl", "show", "--value", "-p", "MainPID", "softroce-xdp@eth0"); again != pid {
		t.Errorf("the process is %s after a reload, was %s", again, pid)
	}
	if got := b.run("systemctl", "stop", "softroce-xdp@eth0"); got != "" {
		t.Errorf("stop: %s\n%s", got, b.log())
	}
	if out, err := b.command(program, "status", "eth0").CombinedOutput(); err == nil || !strings.Contains(string(out), "not attached") {
		t.Errorf("after stop: %v\n%s", err, out)
	}
}
