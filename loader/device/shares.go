// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/device/limits"
)

// The kernel limits the memory mappings, descriptors and threads of the server. A Go program that cannot map
// memory or start a thread ends ("runtime: cannot allocate memory"). So all processes together may have three
// quarters of each, and the rest is a reserve for the server.

// share is the part of a limit of the kernel that all processes together may have.
func share(limit uint64) uint64 { return max(limit/4*3, 1) }

const (
	// descriptorsOfProcess is how many descriptors a process takes while it is connected, at most, without
	// further files of rings: its socket, its pidfd, an eventfd, the two ends of the socket for signals, a
	// file of rings, three of its memory; for a moment eight of a message, and copies of three of them.
	descriptorsOfProcess = 1 + 1 + 1 + 2 + 1 + 3 + 8 + 3

	// threadsOfProcess is how many threads wait in system calls that a process makes slow, at most: a call
	// that uses its descriptors, one that closes them, the end of its socket (foreign.go), and the reading of
	// its mappings (file_systems.go).
	threadsOfProcess = 4

	// maxGoThreads is how many threads a Go program may have (runtime/debug.SetMaxThreads).
	maxGoThreads = 10_000
)

// usesOfProcess is what a process is charged when it connects.
var usesOfProcess = []limits.Use{{Kind: limits.Mappings, N: 1}, {Kind: limits.Descriptors, N: descriptorsOfProcess}}

// kernelShares reads the limits of the kernel. What cannot be read is what Linux has by default.
func kernelShares() (all [len(limits.Limits{}.All)]limits.Share) {
	all[limits.Mappings] = limits.Share{
		Max: share(readNumber("/proc/sys/vm/max_map_count", 65530)), Remedy: "vm.max_map_count (sysctl) and restart the agent",
	}
	descriptors := uint64(1024)
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) == nil {
		descriptors = r.Cur
	}
	all[limits.Descriptors] = limits.Share{Max: share(descriptors), Remedy: "LimitNOFILE of the agent's unit (RLIMIT_NOFILE) and restart the agent"}
	cgroups, _ := os.ReadFile("/proc/self/cgroup")
	threads := min(maxGoThreads, readNumber("/proc/sys/kernel/threads-max", math.MaxUint64), taskLimit("/sys/fs/cgroup", cgroups))
	all[limits.Processes] = limits.Share{
		Max: max(share(threads)/threadsOfProcess, 1), Remedy: "TasksMax of the agent's unit (pids.max), if it is below 10000, and restart the agent",
	}
	return all
}

// readNumber returns the number in a file, or otherwise.
func readNumber(name string, otherwise uint64) uint64 {
	b, err := os.ReadFile(name)
	if err != nil {
		return otherwise
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil { // "max"
		return otherwise
	}
	return n
}

// taskLimit is the smallest pids.max of the control groups in the text of /proc/self/cgroup, and of those
// above them. root is where the file systems of control groups are mounted.
func taskLimit(root string, cgroups []byte) uint64 {
	least := uint64(math.MaxUint64)
	lines := bufio.NewScanner(bytes.NewReader(cgroups))
	for lines.Scan() {
		_, rest, _ := strings.Cut(lines.Text(), ":")
		controllers, group, ok := strings.Cut(rest, ":")
		if !ok || controllers != "" && controllers != "pids" { // "" is version 2, whose root has no folder of its own
			continue
		}
		for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
			least = min(least, readNumber(filepath.Join(root, controllers, dir, "pids.max"), math.MaxUint64))
			if dir == "/" {
				break
			}
		}
	}
	return least
}
