// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"fmt"
	"slices"
)

// capabilities are the names of the capabilities by number (linux/capability.h).
var capabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_ADMIN", "CAP_NET_RAW",
	"CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_SYS_PACCT",
	"CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE", "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD",
	"CAP_LEASE", "CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL", "CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG",
	"CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
}

// bounding returns the bounding set of a unit, a bit for each capability.
func (u Unit) bounding() (set uint64, err error) {
	if u["CapabilityBoundingSet"] == nil {
		return ^uint64(0), nil
	}
	for _, name := range u.Words("CapabilityBoundingSet") {
		n := slices.Index(capabilities, name)
		if n < 0 {
			return 0, fmt.Errorf("CapabilityBoundingSet: %q is not supported: name the capabilities that remain", name)
		}
		set |= 1 << n
	}
	return set, nil
}
