// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// sysRDMA is where the kernel lists RDMA devices.
const sysRDMA = "/sys/class/infiniband"

const (
	// rdmaEvery is the time between two searches for an RDMA device.
	rdmaEvery = 100 * time.Millisecond
	// rdmaRetry is the time until the next attempt after the pacer could not be prepared.
	rdmaRetry = 5 * time.Second
)

// rdmaDevice returns the name of the RDMA device on a network interface, "" if there is
// none. root is sysRDMA.
func rdmaDevice(root, ifname string) string {
	files, _ := filepath.Glob(filepath.Join(root, "*/ports/*/gid_attrs/ndevs/*"))
	for _, f := range files {
		b, err := os.ReadFile(f) // an error for entries that are not in use
		if err == nil && strings.TrimSpace(string(b)) == ifname {
			rest, _ := filepath.Rel(root, f)
			name, _, _ := strings.Cut(rest, "/")
			return name
		}
	}
	return ""
}

// expectRDMA prepares the pacer before a QP sends its first packet: rdma_rxe ends a QP whose
// packet is dropped on its own host, which a change of the root qdisc may do. root is sysRDMA.
func (a *Agent) expectRDMA(root string, now uint64) {
	if a.rdma != "" || now < a.rdmaAfter {
		return
	}
	a.rdmaAfter = now + uint64(rdmaEvery)
	name := rdmaDevice(root, a.iface.Name)
	if name == "" {
		return
	}
	if err := a.pacer.Prepare(); err != nil {
		a.rdmaAfter = now + uint64(rdmaRetry)
		a.log.Warn("pacer", "rdma", name, "err", err)
		return
	}
	a.rdma = name
	a.log.Info("RDMA device on the interface: the pacer is ready", "rdma", name)
}
