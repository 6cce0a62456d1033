// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cavaliergopher/cpio"
)

// writeTree writes the tree below root as a newc cpio, all owned by root.
// Only folders, regular files and symbolic links are kept.
func writeTree(w io.Writer, root string) error {
	cw := cpio.NewWriter(w)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil || rel == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return cw.WriteHeader(&cpio.Header{Name: rel, Mode: cpio.TypeDir | 0o755})
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			if err := cw.WriteHeader(&cpio.Header{Name: rel, Mode: cpio.TypeSymlink | 0o777, Size: int64(len(target))}); err != nil {
				return err
			}
			_, err = io.WriteString(cw, target)
			return err
		case info.Mode().IsRegular():
			return writeFile(cw, rel, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return cw.Close()
}

// writeProgram writes one program at the top as a newc cpio. The kernel unpacks it over the archive
// before it.
func writeProgram(w io.Writer, name string, program []byte) error {
	cw := cpio.NewWriter(w)
	header := &cpio.Header{Name: name, Mode: cpio.TypeReg | 0o755, Size: int64(len(program)), Links: 1}
	if err := cw.WriteHeader(header); err != nil {
		return err
	}
	if _, err := cw.Write(program); err != nil {
		return err
	}
	return cw.Close()
}

func writeFile(cw *cpio.Writer, rel, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	mode := cpio.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	if err := cw.WriteHeader(&cpio.Header{Name: rel, Mode: cpio.TypeReg | mode, Size: info.Size(), Links: 1}); err != nil {
		return err
	}
	_, err = io.Copy(cw, f)
	return err
}
