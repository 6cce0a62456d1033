// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Directories of the files that programs look for.
const (
	nodeDir  = "/dev/infiniband"
	classDir = "/sys/class/infiniband"
)

// addFiles adds the files of devices to the mount namespace of this thread. nodes is the number of the character
// devices uverbs0, uverbs1, ...
func addFiles(devices []*verbsDevice, nodes int) error {
	defer unix.Umask(unix.Umask(0o022)) // other users of the namespace read the files too
	return errors.Join(addNodes(nodes), addClass(devices))
}

// addNodes makes the character devices. UCX tests that they are there, and that it may read and write them.
func addNodes(nodes int) error {
	names := map[string]bool{}
	for i := range nodes {
		names["uverbs"+strconv.Itoa(i)] = true
	}
	if err := makeWritable(nodeDir, names); err != nil {
		return err
	}
	for name := range names {
		if err := bind("/dev/null", filepath.Join(nodeDir, name), false); err != nil {
			return err
		}
	}
	return nil
}

// addClass makes the directories of devices below /sys/class/infiniband.
func addClass(devices []*verbsDevice) error {
	names := map[string]bool{}
	for _, d := range devices {
		names[d.name()] = true
	}
	if err := makeWritable(classDir, names); err != nil {
		return err
	}
	for _, d := range devices {
		files, links := d.files()
		for path, text := range files {
			path = filepath.Join(classDir, d.name(), path)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o444)); err != nil {
				return err
			}
		}
		for path, target := range links {
			path = filepath.Join(classDir, d.name(), path)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeWritable makes dir a directory to which files can be added, with the entries that it has but those that are to
// be replaced. If there is no such directory, its parent is made one with it.
func makeWritable(dir string, replaced map[string]bool) error {
	err := mirror(dir, replaced)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := mirror(filepath.Dir(dir), nil); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o755)
}

// mirror mounts a tmpfs on a directory, with the entries that the directory had. An overlay would be simpler, but the
// kernel lets nobody open device nodes in one that a user has mounted, and refuses it to users before Linux 5.11.
func mirror(dir string, without map[string]bool) (err error) {
	old, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer old.Close()
	entries, err := old.ReadDir(-1)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755"); err != nil {
		return fmt.Errorf("mount a tmpfs on %s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH))
		}
	}()
	under := fmt.Sprintf("/proc/self/fd/%d", old.Fd()) // the directory below the tmpfs
	for _, e := range entries {
		if without[e.Name()] {
			continue
		}
		err := mirrorEntry(filepath.Join(under, e.Name()), filepath.Join(dir, e.Name()), e.Type())
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
			return err
		}
	}
	return nil
}

// mirrorEntry makes path what the entry at the path from is.
func mirrorEntry(from, path string, mode fs.FileMode) error {
	if mode&fs.ModeSymlink == 0 {
		return bind(from, path, mode.IsDir())
	}
	target, err := os.Readlink(from)
	if err != nil {
		return err
	}
	return os.Symlink(target, path)
}

// bind makes a file or a directory, and mounts on it what is at the path from.
func bind(from, path string, isDir bool) (err error) {
	if isDir {
		err = os.Mkdir(path, 0o755)
	} else {
		err = os.WriteFile(path, nil, 0o444)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount on %s: %w", path, err)
	}
	return nil
}
