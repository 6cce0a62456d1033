// SPDX-License-Identifier: Apache-2.0

// Package resident keeps a process in memory on which others depend: its pages are not swapped out, and when the
// machine runs out of memory, the kernel ends other processes first.
package resident

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Lock keeps each page of the process in memory from its first access on (mlockall(2) with MCL_ONFAULT), also of
// memory that is mapped later. It needs CAP_IPC_LOCK or no limit of locked memory (RLIMIT_MEMLOCK), because otherwise
// a later mapping would fail at the limit.
func Lock() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return fmt.Errorf("limit of locked memory: %w", err)
	}
	if limit.Cur != unix.RLIM_INFINITY && !mayLock() {
		return fmt.Errorf("lock memory: %w: it needs CAP_IPC_LOCK, or no limit of locked memory (LimitMEMLOCK=infinity in a unit); the limit is %d bytes",
			os.ErrPermission, limit.Cur)
	}
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		return fmt.Errorf("lock memory: %w", err)
	}
	return nil
}

// mayLock reports whether this thread has CAP_IPC_LOCK.
func mayLock() bool {
	var data [2]unix.CapUserData
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return unix.Capget(&hdr, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0
}

// oomScore is /proc/self/oom_score_adj (proc(5)).
const oomScore = "/proc/self/oom_score_adj"

// Protect lowers the score by which the kernel chooses the process to end when memory runs out to score, from -1000 to
// 1000. A lower score stays. The error wraps os.ErrPermission without CAP_SYS_RESOURCE.
func Protect(score int) error {
	text, err := os.ReadFile(oomScore)
	if err != nil {
		return err
	}
	now, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", oomScore, err)
	}
	if now <= score {
		return nil
	}
	err = os.WriteFile(oomScore, []byte(strconv.Itoa(score)), 0)
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: to lower it from %d to %d needs CAP_SYS_RESOURCE (OOMScoreAdjust in a unit)", err, now, score)
	}
	return err
}
