// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

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

// writeFiles writes single files (path in the archive → path here) and the folders
// above them as a newc cpio. The kernel unpacks it over the archive before it.
func writeFiles(w io.Writer, files map[string]string) error {
	cw := cpio.NewWriter(w)
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	made := map[string]bool{".": true}
	var mkdir func(dir string) error
	mkdir = func(dir string) error {
		if made[dir] {
			return nil
		}
		if err := mkdir(path.Dir(dir)); err != nil {
			return err
		}
		made[dir] = true
		return cw.WriteHeader(&cpio.Header{Name: dir, Mode: cpio.TypeDir | 0o755})
	}
	for _, name := range names {
		rel := merged(name)
		if err := mkdir(path.Dir(rel)); err != nil {
			return err
		}
		if err := writeFile(cw, rel, files[name]); err != nil {
			return err
		}
	}
	return cw.Close()
}

// merged maps /bin, /sbin, /lib and /lib64 below /usr. In the image they are symbolic
// links, and the kernel would replace a link by a folder of that name.
func merged(name string) string {
	rel := path.Clean("/" + name)[1:]
	switch top, _, _ := strings.Cut(rel, "/"); top {
	case "bin", "sbin", "lib", "lib64":
		return "usr/" + rel
	}
	return rel
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
