// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer/internal/agent"
)

const sharedDir = "/run/files"

// copyFiles copies the host's files. The shared folder is mounted only meanwhile.
func copyFiles(files []agent.File) (err error) {
	if len(files) == 0 {
		return nil
	}
	if err := os.MkdirAll(sharedDir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(agent.FilesTag, sharedDir, "9p", unix.MS_RDONLY, "trans=virtio,version=9p2000.L,msize=524288"); err != nil {
		return fmt.Errorf("mount the host's files: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Unmount(sharedDir, 0)) }()
	for i, f := range files {
		if err := copyFile(filepath.Join(sharedDir, strconv.Itoa(i)), f); err != nil {
			return err
		}
	}
	return nil
}

// copyFile makes the folders above a file, too.
func copyFile(from string, f agent.File) error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(f.Path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, os.FileMode(f.Mode))
	if err != nil {
		return err
	}
	defer out.Close()
	// A buffer of its own: without, Go splices by pages.
	if _, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, 512<<10)); err != nil {
		return err
	}
	return out.Close()
}
