// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer/internal/agent"
)

// firstFD is the number that the first of exec.Cmd.ExtraFiles gets in the child.
const firstFD = 3

// qemuCommand runs the image's qemu by the image's loader: its libraries are those of another
// release than the host's.
func qemuCommand(img *Image, args []string) *exec.Cmd {
	in := func(name string) string { return filepath.Join(img.Emulator, name) }
	libs := in("usr/lib/x86_64-linux-gnu")
	head := []string{
		"--library-path", libs, in("usr/bin/qemu-system-x86_64"), "-L", in("usr/share/qemu"), "-L", in("usr/share/seabios"),
	}
	cmd := exec.Command(in("usr/lib64/ld-linux-x86-64.so.2"), append(head, args...)...)
	cmd.Env = append(os.Environ(), "QEMU_MODULE_DIR="+filepath.Join(libs, "qemu"))
	return cmd
}

// start is how qemu starts a machine: it boots, or continues from a state.
type start struct {
	initrd  string // initial file system of a machine that boots
	state   string // folder of the state: to be made if initrd is set, else restored; empty if there is none
	console string
}

// Files of a state.
const (
	memoryFile  = "memory"
	devicesFile = "devices"
)

// qemuArgs is qemu's command line. Its inherited descriptors are the agent's socket, the
// monitor's, those of the further ports, and then the taps' queues, card by card.
func qemuArgs(c Config, s start) []string {
	args := append([]string{"-name", "rxepeer-" + c.Name, "-serial", "file:" + s.console}, machineArgs(c)...)
	if s.initrd != "" {
		args = append(args, "-kernel", c.Image.Kernel, "-initrd", s.initrd, "-append", cmdline)
	} else {
		args = append(args, "-incoming", "defer")
	}
	if s.state == "" {
		return args
	}
	memory := fmt.Sprintf("memory-backend-file,id=memory,size=%dM,mem-path=%s", c.MemoryMB, filepath.Join(s.state, memoryFile))
	if s.initrd != "" {
		memory += ",share=on"
	} else {
		memory += ",share=off,readonly=on,rom=off" // What the machine writes stays in its process.
	}
	return append(args, "-object", memory, "-machine", "memory-backend=memory")
}

// machineArgs are the arguments that a state belongs to: what the machine can see of itself before SetUp.
func machineArgs(c Config) []string {
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		// Hardware virtualisation is not everywhere, and where it is nested it may hang.
		"-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max",
		"-smp", strconv.Itoa(c.CPUs), "-m", strconv.Itoa(c.MemoryMB),
		// Not the time of day: a machine has it from SetUp, or visibly not at all.
		"-rtc", "base=2020-01-01T00:00:00",
		"-chardev", fmt.Sprintf("socket,id=agent,fd=%d", firstFD),
		"-chardev", fmt.Sprintf("socket,id=monitor,fd=%d", firstFD+1), "-mon", "chardev=monitor,mode=control",
		"-device", "virtio-serial-pci",
		"-device", "virtserialport,chardev=agent,name=" + agent.PortName,
	}
	fd := firstFD + 2
	for i := range portsOf(c) {
		args = append(args,
			"-chardev", fmt.Sprintf("socket,id=port%d,fd=%d", i, fd),
			"-device", fmt.Sprintf("virtserialport,chardev=port%d,name=%s", i, agent.FurtherPort(i)))
		fd++
	}
	for i, n := range c.NICs {
		fds := make([]string, n.Queues)
		for q := range fds {
			fds[q] = strconv.Itoa(fd)
			fd++
		}
		args = append(args,
			"-netdev", fmt.Sprintf("tap,id=net%d,fds=%s", i, strings.Join(fds, ":")),
			"-device", nicDevice(i, n))
	}
	return append(args, c.Qemu...)
}

// portsOf is how many further ports a machine has. One is there whether it is used or not, so that
// machines with and without it share a state.
func portsOf(c Config) int { return max(1, len(c.Ports)) }

func nicDevice(i int, n NIC) string {
	dev := fmt.Sprintf("virtio-net-pci,netdev=net%d,host_mtu=%d,romfile=", i, n.MTU)
	if n.Queues > 1 {
		// Two vectors a pair, one for control, one for configuration changes.
		dev += fmt.Sprintf(",mq=on,vectors=%d", 2*n.Queues+2)
	}
	if !n.GuestOffloads {
		dev += ",guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,guest_csum=off"
	}
	// After a restore the driver would announce an address that is about to change.
	return dev + ",guest_announce=off"
}

// cmdline is the kernel's.
const cmdline = "console=ttyS0 loglevel=5 panic=-1 mitigations=off net.ifnames=0 " +
	// The kernel counts timer interrupts for a moment when it starts, and panics (IO-APIC + timer
	// doesn't work) where a busy host did not let the emulator deliver any.
	"no_timer_check"

// macOf derives a locally administered address, the same in every run.
func macOf(name string, card int) net.HardwareAddr {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", name, card))
	return net.HardwareAddr{0x52, 0x54, 0x00, sum[0], sum[1], sum[2]}
}
