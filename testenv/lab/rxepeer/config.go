// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer/internal/agent"
)

// Config describes one machine. Only Name is needed; without NICs it has no network.
type Config struct {
	Name     string        // host name in the machine, and of its logs and taps; short
	Release  string        // Debian release of the kernel: Debian12 or, the default, Debian13
	Image    *Image        // nil: EnsureImage of Release
	NICs     []NIC         // eth0, eth1, ... in this order
	NoRxe    bool          // leave out the rxe devices rxe0, rxe1, ... on eth0, eth1, ...
	CPUs     int           // default 1
	MemoryMB int           // default 768
	Boot     time.Duration // longest time for booting, after an attempt to restore; default BootTimeout
	Fresh    bool          // Boots the machine: it is the only one of its kind, and a state would serve no other.

	Product string            // path of a static softroce-xdp binary, becomes /usr/sbin/softroce-xdp
	Files   map[string]string // path in the machine → path here; modes are kept

	// Ports are the names of further virtio-serial ports, which VM.Port opens here and a program
	// in the machine by /dev/virtio-ports/NAME. They work without a network.
	Ports []string

	// Qemu are further arguments of qemu, for example devices. PCI slots from 0x10 on are free. A
	// machine with such arguments always boots.
	Qemu []string

	// Dir receives the console log NAME.console; empty means a temporary folder that
	// Close removes.
	Dir string
}

// NIC is a virtio-net card with guest offloads off, as native XDP wants it.
type NIC struct {
	Net   *Net
	Addrs []netip.Prefix
	MTU   int              // default 1500; the bridge's and the other taps' must allow it
	MAC   net.HardwareAddr // default: locally administered, from Name and the card's number
	// Queues is the number of queue pairs that the card offers. The driver uses one per
	// CPU and wants as many again for XDP_TX and XDP_REDIRECT, so the default is 2×CPUs.
	Queues int
	// GuestOffloads leaves TSO, UFO and checksum offload towards the machine on, until
	// its driver turns them off for native XDP.
	GuestOffloads bool
}

// BootTimeout is the default for Config.Boot. Booting takes 5-10 s on an idle machine;
// an emulated one on a host that others use can take minutes.
const BootTimeout = 10 * time.Minute

var (
	nameRE = regexp.MustCompile(`^[a-z][a-z0-9-]{0,9}$`)
	portRE = regexp.MustCompile(`^[a-z][a-z0-9.-]{0,30}$`)
)

// complete checks the configuration and fills in defaults.
func (c Config) complete() (Config, error) {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("rxepeer: machine %q: "+format, append([]any{c.Name}, args...)...))
	}
	if !nameRE.MatchString(c.Name) {
		bad("name must match %s, since it names a tap too", nameRE)
	}
	if c.CPUs == 0 {
		c.CPUs = 1
	}
	if c.MemoryMB == 0 {
		c.MemoryMB = 768
	}
	if c.Boot == 0 {
		c.Boot = BootTimeout
	}
	if c.CPUs < 0 || c.CPUs > 16 {
		bad("%d CPUs, want 1 to 16", c.CPUs)
	}
	if c.MemoryMB < 384 {
		bad("%d MB of memory, want at least 384 (the initrd is unpacked into it)", c.MemoryMB)
	}
	if c.Product != "" {
		c.Files = withFile(c.Files, "/usr/sbin/softroce-xdp", c.Product)
	}
	for to, from := range c.Files {
		if !strings.HasPrefix(to, "/") {
			bad("file %s: the path in the machine must be absolute", to)
		}
		if info, err := os.Stat(from); err != nil {
			bad("file %s: %w", to, err)
		} else if !info.Mode().IsRegular() {
			bad("file %s: %s is not a regular file", to, from)
		}
	}
	seen := map[string]bool{agent.PortName: true}
	for _, p := range c.Ports {
		if !portRE.MatchString(p) {
			bad("port %q: its name must match %s", p, portRE)
		}
		if seen[p] {
			bad("port %q: the name is taken", p)
		}
		seen[p] = true
	}
	nics := make([]NIC, len(c.NICs))
	for i, n := range c.NICs {
		if n.Net == nil {
			bad("NIC %d has no Net", i)
		}
		if n.MTU == 0 {
			n.MTU = 1500
		}
		if n.MTU < 68 || n.MTU > 65535 {
			bad("NIC %d: MTU %d, want 68 to 65535", i, n.MTU)
		}
		if n.Queues == 0 {
			n.Queues = 2 * c.CPUs
		}
		if n.Queues < 1 || n.Queues > 64 {
			bad("NIC %d: %d queue pairs, want 1 to 64", i, n.Queues)
		}
		if n.MAC == nil {
			n.MAC = macOf(c.Name, i)
		}
		nics[i] = n
	}
	c.NICs = nics
	return c, errors.Join(errs...)
}

func withFile(files map[string]string, to, from string) map[string]string {
	all := map[string]string{to: from}
	for k, v := range files {
		all[k] = v
	}
	return all
}
