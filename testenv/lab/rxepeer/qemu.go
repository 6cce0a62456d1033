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

// qemuArgs is qemu's command line. Its inherited descriptors are the agent's socket,
// those of the further ports, and then the taps' queues, card by card.
func qemuArgs(c Config, initrd, console string) []string {
	args := []string{
		"-name", "rxepeer-" + c.Name,
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		// Hardware virtualisation is not everywhere, and where it is nested it may hang.
		"-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max",
		"-smp", strconv.Itoa(c.CPUs), "-m", strconv.Itoa(c.MemoryMB),
		"-kernel", c.Image.Kernel, "-initrd", initrd, "-append", cmdline(c),
		"-serial", "file:" + console,
		"-chardev", fmt.Sprintf("socket,id=agent,fd=%d", firstFD),
		"-device", "virtio-serial-pci",
		"-device", "virtserialport,chardev=agent,name=" + agent.PortName,
	}
	fd := firstFD + 1
	for i, name := range c.Ports {
		args = append(args,
			"-chardev", fmt.Sprintf("socket,id=port%d,fd=%d", i, fd),
			"-device", fmt.Sprintf("virtserialport,chardev=port%d,name=%s", i, name))
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

func nicDevice(i int, n NIC) string {
	dev := fmt.Sprintf("virtio-net-pci,netdev=net%d,mac=%s,host_mtu=%d,romfile=", i, n.MAC, n.MTU)
	if n.Queues > 1 {
		// Two vectors a pair, one for control, one for configuration changes.
		dev += fmt.Sprintf(",mq=on,vectors=%d", 2*n.Queues+2)
	}
	if !n.GuestOffloads {
		dev += ",guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,guest_csum=off"
	}
	return dev
}

// cmdline is the kernel's; guest/cmdline.go reads the rxepeer words.
func cmdline(c Config) string {
	words := []string{
		"console=ttyS0", "loglevel=5", "panic=-1", "mitigations=off", "net.ifnames=0",
		// The kernel counts timer interrupts for a moment when it starts, and panics (IO-APIC + timer
		// doesn't work) where a busy host did not let the emulator deliver any.
		"no_timer_check",
		"rxepeer.host=" + c.Name,
	}
	if !c.NoRxe {
		words = append(words, "rxepeer.rxe=1")
	}
	for i, n := range c.NICs {
		addrs := make([]string, len(n.Addrs))
		for j, a := range n.Addrs {
			addrs[j] = a.String()
		}
		words = append(words, fmt.Sprintf("rxepeer.eth%d=%s", i, strings.Join(addrs, ",")))
	}
	return strings.Join(words, " ")
}

// macOf derives a locally administered address, the same in every run.
func macOf(name string, card int) net.HardwareAddr {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", name, card))
	return net.HardwareAddr{0x52, 0x54, 0x00, sum[0], sum[1], sum[2]}
}
