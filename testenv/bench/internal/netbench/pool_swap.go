// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// swapOn makes a swap file of a number of bytes and begins its use. off ends that and removes it.
func swapOn(ctx context.Context, file string, bytes int64) (off func() error, err error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, bytes)
	err = errors.Join(err, f.Close())
	remove := func() error { return os.Remove(file) }
	if err != nil {
		return nil, fmt.Errorf("swap file of %d bytes: %w", bytes, errors.Join(err, remove()))
	}
	for _, command := range []string{"mkswap", "swapon"} {
		if out, err := exec.CommandContext(ctx, command, file).CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("%s %s: %w: %s", command, file, err, strings.TrimSpace(string(out))), remove())
		}
	}
	return func() error {
		if out, err := exec.Command("swapoff", file).CombinedOutput(); err != nil {
			return fmt.Errorf("swapoff %s: %w: %s", file, err, strings.TrimSpace(string(out)))
		}
		return remove()
	}, nil
}

// group is a memory cgroup, of version 1 or 2.
type group struct{ dir string }

func newGroup(limit int64) (g group, err error) {
	name := fmt.Sprintf("softroce-pool-bench-%d", os.Getpid())
	dir, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
		dir, file = "/sys/fs/cgroup", "memory.max"
	}
	g.dir = filepath.Join(dir, name)
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return g, fmt.Errorf("memory cgroup: %w", err)
	}
	if err := os.WriteFile(filepath.Join(g.dir, file), []byte(strconv.FormatInt(limit, 10)), 0); err != nil {
		return g, fmt.Errorf("memory cgroup: %w", errors.Join(err, g.remove()))
	}
	return g, nil
}

func (g group) remove() error { return os.Remove(g.dir) }
