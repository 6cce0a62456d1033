// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// verbsLibrary is the name under which programs load libibverbs.
const verbsLibrary = "libibverbs.so.1"

// findLibrary returns the directory of the verbs library of this project: the one that the user has named, or, next to
// this program, where `make verbs` or `make install` has put it. The path is absolute and has no symbolic links, so that
// what is checked is what the loader gets.
func findLibrary(named string) (string, error) {
	dirs := []string{named}
	if named == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		dirs = []string{filepath.Join(filepath.Dir(self), "verbs"), filepath.Join(filepath.Dir(self), "../lib/softroce-xdp")}
	}
	for _, dir := range dirs {
		if st, err := os.Stat(filepath.Join(dir, verbsLibrary)); err == nil && st.Mode().IsRegular() {
			return loadableDir(dir)
		}
	}
	return "", fmt.Errorf("there is no %s in %s: build it with `make verbs`, or name its directory with --library",
		verbsLibrary, strings.Join(dirs, " or "))
}

// loadableDir returns the path of a directory without symbolic links. It refuses one that the loader would read otherwise.
func loadableDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", err
	}
	if strings.ContainsAny(dir, ":;$\n") { // ld.so(8): separators, and variables such as $ORIGIN
		return "", fmt.Errorf("%q has a colon, semicolon, dollar sign or new line, which mean something else to the loader: "+
			"put the library into another directory", dir)
	}
	return dir, nil
}

// checkOwner refuses the library in a directory if another user than root can change it or add files to the directory,
// since programs of root would execute them. The path of the directory has no symbolic links; the library must be none.
func checkOwner(library string) error {
	for path := filepath.Join(library, verbsLibrary); ; path = filepath.Dir(path) {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return fmt.Errorf("%s is a symbolic link: name the directory of the file with --library", path)
		}
		if othersChange(&st, len(path) < len(library)) {
			return fmt.Errorf("users other than root can change %s (owner %d, group %d, mode %04o): "+
				"put the library elsewhere, for example with `make install`", path, st.Uid, st.Gid, st.Mode&0o7777)
		}
		if path == "/" {
			return nil
		}
	}
}

// othersChange reports whether another user than root can change a file or directory. In a directory above that of the
// library, the sticky bit suffices: others can add entries, and cannot replace those of root.
func othersChange(st *unix.Stat_t, above bool) bool {
	writable := st.Mode&0o002 != 0 || st.Mode&0o020 != 0 && st.Gid != 0
	return st.Uid != 0 || writable && !(above && st.Mode&unix.S_ISVTX != 0)
}

// loaded returns the path of the libibverbs that programs load in an environment with this LD_LIBRARY_PATH, and why;
// "" if there is none.
func loaded(libraryPath string) (path, why string) {
	for _, dir := range filepath.SplitList(libraryPath) {
		path := filepath.Join(dir, verbsLibrary) // an empty element is the working directory
		if _, err := os.Stat(path); err == nil {
			return path, "LD_LIBRARY_PATH has its directory"
		}
	}
	path, err := cached()
	switch {
	case err != nil:
		return "", err.Error()
	case path == "":
		return "", "the loader's cache has none"
	}
	return path, "the loader's cache has it (ldconfig -p)"
}

// cacheLine is a line of `ldconfig -p`: name, kinds, path.
var cacheLine = regexp.MustCompile(`(?m)^\s*(\S+) \(([^)]*)\) => (\S+)$`)

// cached returns the path of libibverbs in the loader's cache; "" if it has none.
func cached() (string, error) {
	list, err := ldconfig("-p")
	if err != nil {
		return "", err
	}
	kind := map[string]string{"amd64": "x86-64", "arm64": "AArch64"}[runtime.GOARCH]
	for _, m := range cacheLine.FindAllStringSubmatch(list, -1) {
		if m[1] == verbsLibrary && strings.Contains(m[2], kind) {
			return m[3], nil
		}
	}
	return "", nil
}

// ldconfig runs the program of that name, and returns its output.
func ldconfig(args ...string) (string, error) {
	path, err := exec.LookPath("ldconfig")
	if err != nil { // the PATH of users may lack the directory
		path, err = exec.LookPath("/sbin/ldconfig")
	}
	if err != nil {
		return "", errors.New("there is no ldconfig: this takes glibc; elsewhere, use `softroce-xdp run`")
	}
	out, err := exec.Command(path, args...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("%s: %w: %s", path, err, strings.TrimSpace(string(failed.Stderr)))
	}
	return string(out), err
}

// realDevices returns the paths of RDMA devices that this machine has, without those that run has made.
func realDevices() (found []string) {
	classes, _ := filepath.Glob(classDir + "/*")
	for _, path := range classes {
		if !strings.HasPrefix(filepath.Base(path), devicePrefix) {
			found = append(found, path)
		}
	}
	nodes, _ := filepath.Glob(nodeDir + "/uverbs*")
	for _, path := range nodes {
		var st, null unix.Stat_t
		if unix.Stat(path, &st) != nil || unix.Stat("/dev/null", &null) != nil || st.Rdev != null.Rdev {
			found = append(found, path)
		}
	}
	return found
}

// readConfig returns the content of a file, "" if there is none.
func readConfig(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(b), err
}
