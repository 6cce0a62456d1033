// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer/internal/agent"
)

const appletDir = "/usr/local/bin"

// mountAll mounts what a Debian host would have mounted.
func mountAll() error {
	mounts := []struct{ kind, dir string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"},
		{"devpts", "/dev/pts"}, {"tmpfs", "/dev/shm"}, {"cgroup2", "/sys/fs/cgroup"},
		{"bpf", "/sys/fs/bpf"}, {"debugfs", "/sys/kernel/debug"}, {"tracefs", "/sys/kernel/tracing"},
	}
	var errs []error
	for _, m := range mounts {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			errs = append(errs, fmt.Errorf("mount %s: %w", m.dir, err))
		}
	}
	return errors.Join(errs...)
}

// prepare does what is the same for every machine. It goes on after a failure and returns all of
// them, so that the host can look around in a half-made machine.
func prepare() (problems []string) {
	check := collect(&problems)
	os.Clearenv()
	for key, value := range map[string]string{"PATH": "/usr/sbin:/usr/bin:/sbin:/bin:" + appletDir, "HOME": "/root", "LC_ALL": "C", "TERM": "dumb"} {
		check(os.Setenv(key, value))
	}
	// Busybox stands in for what has no package here; it comes last in PATH, so that ip
	// or modprobe are the real ones.
	check(os.MkdirAll(appletDir, 0o755))
	check(run("/bin/busybox", "--install", "-s", appletDir))
	linkShell(check)
	// Verbs pin memory; programs load BPF.
	unlimited := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	check(unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unlimited))

	check(run("modprobe", "-a", "virtio_pci", "virtio_console", "virtio_net", "configfs", "rdma_rxe", "ib_uverbs", "ib_umad"))
	check(os.MkdirAll("/sys/kernel/config", 0o755))
	check(unix.Mount("configfs", "/sys/kernel/config", "configfs", 0, ""))
	// Addresses are usable at once; nobody else is on the wire to collide with.
	check(os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0o644))
	check(run("ip", "link", "set", "dev", "lo", "up"))
	return problems
}

// setUp brings the machine to the state that Boot promises. It goes on after a failure as prepare does.
func setUp(s agent.SetUp) (problems []string) {
	check := collect(&problems)
	// First of all: what follows uses random numbers, and machines restored from one state would use the same.
	check(reseed(s.Entropy))
	now := unix.NsecToTimespec(s.Time.UnixNano())
	check(unix.ClockSettime(unix.CLOCK_REALTIME, &now))
	check(unix.Sethostname([]byte(s.Host)))
	check(writeEtc(s.Host))
	check(linkPorts(s.Ports))
	check(plugIn(s.NICs))
	if s.Rxe {
		// rdma_cm numbers its connections from a random number on that it takes when it is loaded.
		check(run("modprobe", "rdma_ucm"))
		for i := range s.NICs {
			check(run("rdma", "link", "add", fmt.Sprintf("rxe%d", i), "type", "rxe", "netdev", ethName(i)))
		}
	}
	return problems
}

func ethName(i int) string { return fmt.Sprintf("eth%d", i) }

// plugIn gives the interfaces their addresses and waits until they are up.
func plugIn(nics []agent.NIC) error {
	if len(nics) == 0 {
		return nil
	}
	var batch strings.Builder
	for i, nic := range nics {
		dev := ethName(i)
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+dev+"/accept_dad", []byte("0"), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&batch, "link set dev %s address %s\n", dev, nic.MAC)
		for _, addr := range nic.Addrs {
			fmt.Fprintf(&batch, "address add %s dev %s\n", addr, dev)
		}
		fmt.Fprintf(&batch, "link set dev %s up\n", dev)
	}
	ip := exec.Command("ip", "-batch", "-")
	ip.Stdin = strings.NewReader(batch.String())
	if out, err := ip.CombinedOutput(); err != nil {
		return fmt.Errorf("ip -batch: %w: %s\n%s", err, out, batch.String())
	}
	for i := range nics {
		if err := waitUp(ethName(i), patience); err != nil {
			return err
		}
	}
	return nil
}

func collect(problems *[]string) func(error) {
	return func(err error) {
		if err != nil {
			*problems = append(*problems, err.Error())
		}
	}
}

// waitUp waits until the kernel has noticed the carrier, which it may delay by a second; IPv6
// addresses and rxe's port state depend on it.
func waitUp(name string, wait time.Duration) error {
	for deadline := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		b, err := os.ReadFile("/sys/class/net/" + name + "/operstate")
		if err != nil {
			return err
		}
		state := strings.TrimSpace(string(b))
		if state == "up" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is %s after %v", name, state, wait)
		}
	}
}

// linkShell gives /bin/sh, which scripts and system(3) expect.
func linkShell(check func(error)) {
	if err := os.Symlink("busybox", "/bin/sh"); !errors.Is(err, os.ErrExist) {
		check(err)
	}
}

func writeEtc(host string) error {
	files := map[string]string{
		"/etc/passwd":        "root:x:0:0:root:/root:/bin/sh\n",
		"/etc/group":         "root:x:0:\n",
		"/etc/hosts":         "127.0.0.1 localhost\n127.0.1.1 " + host + "\n::1 localhost\n",
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\n",
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return os.MkdirAll("/root", 0o700)
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
