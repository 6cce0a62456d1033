// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Senders returns the sockets whose packets leave: those on queues that the stack
// can send on. virtio_net under XDP keeps its last queues for XDP_TX, and shows
// them only as missing in sysfs: its ethtool counts them, a socket binds to them and receives,
// but what it sends is never taken (seen on Linux 6.12).
func (set Set) Senders(ifName string, ifindex int) Set {
	return set[:senders("/sys/class/net", ifName, ifindex, len(set))]
}

// senders counts the queues tx-N of an interface, from 1 to n. It is n where sysfs
// does not tell, or shows another network namespace.
func senders(sysfs, ifName string, ifindex, n int) int {
	dir := filepath.Join(sysfs, ifName)
	b, err := os.ReadFile(filepath.Join(dir, "ifindex"))
	if err != nil || strings.TrimSpace(string(b)) != strconv.Itoa(ifindex) {
		return n
	}
	tx, err := filepath.Glob(filepath.Join(dir, "queues", "tx-*"))
	if err != nil || len(tx) == 0 {
		return n
	}
	return min(len(tx), n)
}
