// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// CacheEnv names the environment variable that overrides the folder for images.
const CacheEnv = "SOFTROCE_VM_CACHE"

// Image is the kernel and the initrd that all machines share, and the qemu that runs them.
type Image struct {
	Kernel   string `json:"-"` // path of the compressed kernel
	Initrd   string `json:"-"` // path of the zstd-compressed cpio
	Emulator string `json:"-"` // folder with qemu and its libraries
	Sysroot  string `json:"-"` // folder with the headers and libraries that CompileC builds with

	KernelVersion string        `json:"kernel_version"`
	Packages      []string      `json:"packages"` // file names of the unpacked .deb files
	InitrdBytes   int64         `json:"initrd_bytes"`
	TreeBytes     int64         `json:"tree_bytes"` // unpacked
	BuildTime     time.Duration `json:"build_time_ns"`

	Cached bool `json:"-"` // found, not built, by this call
}

// EnsureImage returns the image with the kernel of a Debian release (Debian13 if empty),
// building it by the current recipe if the cache has none. The cache folder is $SOFTROCE_VM_CACHE, else softroce-xdp in the user's cache
// folder; concurrent callers, also in other processes, build once.
func EnsureImage(ctx context.Context, release string) (*Image, error) {
	if err := needTools(buildTools); err != nil {
		return nil, fmt.Errorf("rxepeer: to build images this host lacks %w", err)
	}
	mirror, err := debianMirror(ctx)
	if err != nil {
		return nil, err
	}
	r, err := debianRecipe(mirror, release)
	if err != nil {
		return nil, err
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, imagePrefix+r.hash())
	unlock, err := lock(ctx, dir+".lock")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if img, err := openImage(dir); err == nil {
		img.Cached = true
		return img, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	// What a build that was killed left behind is ours to remove: we hold the lock.
	stale, err := filepath.Glob(dir + ".build-*")
	if err != nil {
		return nil, err
	}
	for _, name := range stale {
		if err := os.RemoveAll(name); err != nil {
			return nil, err
		}
	}
	tmp, err := os.MkdirTemp(cache, filepath.Base(dir)+".build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	built := filepath.Join(tmp, "image")
	if err := buildImage(ctx, r, tmp, built); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.Rename(built, dir); err != nil {
		return nil, err
	}
	return openImage(dir)
}

func cacheDir() (string, error) {
	dir := os.Getenv(CacheEnv)
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("rxepeer: no cache folder: %w; set %s", err, CacheEnv)
		}
		dir = filepath.Join(base, "softroce-xdp")
	}
	// apt needs absolute paths in its configuration.
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// lock takes an exclusive lock on a file and returns what releases it.
func lock(ctx context.Context, name string) (func(), error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("rxepeer: lock %s: %w", name, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("rxepeer: waiting for another process that has the lock %s: %w", name, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

const (
	imagePrefix  = "rxepeer-" // of the folder of an image, before the hash of its recipe
	kernelFile   = "vmlinuz"
	initrdFile   = "initrd.zst"
	emulatorDir  = "emulator"
	sysrootDir   = "sysroot"
	manifestFile = "image.json"
)

// openImage reads an image folder. The manifest is written last, so a folder with
// one is complete.
func openImage(dir string) (*Image, error) {
	b, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return nil, err
	}
	img := &Image{
		Kernel: filepath.Join(dir, kernelFile), Initrd: filepath.Join(dir, initrdFile),
		Emulator: filepath.Join(dir, emulatorDir), Sysroot: filepath.Join(dir, sysrootDir),
	}
	if err := json.Unmarshal(b, img); err != nil {
		return nil, fmt.Errorf("rxepeer: %s is damaged, remove the folder: %w", dir, err)
	}
	return img, nil
}

// buildImage downloads into tmp and writes the finished image folder dir.
func buildImage(ctx context.Context, r recipe, tmp, dir string) error {
	start := time.Now()
	a, err := newApt(ctx, filepath.Join(tmp, "apt"), r.Mirror, r.Suite)
	if err != nil {
		return err
	}
	kernels := a
	if r.KernelSuite != "" {
		if kernels, err = newApt(ctx, filepath.Join(tmp, "kernel-apt"), r.Mirror, r.KernelSuite); err != nil {
			return err
		}
	}
	kernel, err := kernels.depends(ctx, r.Kernel)
	if err != nil {
		return err
	}
	img := Image{KernelVersion: strings.TrimPrefix(kernel, "linux-image-")}
	kernelDeb, err := kernels.fetchAlone(ctx, kernel)
	if err != nil {
		return err
	}
	kernelDir, root := filepath.Join(tmp, "kernel"), filepath.Join(tmp, "root")
	if err := img.unpackAll(ctx, kernelDir, kernelDeb); err != nil {
		return err
	}
	guest, err := a.fetch(ctx, "guest", r.Packages...)
	if err != nil {
		return err
	}
	guest = slices.DeleteFunc(guest, func(deb string) bool {
		name, _, _ := strings.Cut(filepath.Base(deb), "_")
		return slices.Contains(r.LeaveOut, name)
	})
	if err := img.unpackAll(ctx, root, guest...); err != nil {
		return err
	}
	trees := []string{root}
	for _, part := range []struct {
		name     string
		packages []string
	}{{emulatorDir, r.Emulator}, {sysrootDir, r.Sysroot}} {
		debs, err := a.fetch(ctx, part.name, part.packages...)
		if err != nil {
			return err
		}
		tree := filepath.Join(dir, part.name)
		if err := img.unpackAll(ctx, tree, debs...); err != nil {
			return err
		}
		trees = append(trees, tree)
	}
	for _, tree := range trees {
		if err := prune(tree); err != nil {
			return err
		}
	}
	if err := installModules(ctx, kernelDir, img.KernelVersion, r.Modules, root); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(kernelDir, "boot/vmlinuz-"+img.KernelVersion), filepath.Join(dir, kernelFile)); err != nil {
		return err
	}
	if img.TreeBytes, img.InitrdBytes, err = packInitrd(root, filepath.Join(dir, initrdFile)); err != nil {
		return err
	}
	img.BuildTime = time.Since(start)
	b, err := json.MarshalIndent(img, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestFile), b, 0o644)
}

// unpackAll makes a tree of the files of packages and notes them in the manifest.
func (img *Image) unpackAll(ctx context.Context, dir string, debs ...string) error {
	if err := mergeUsr(dir); err != nil {
		return err
	}
	for _, deb := range debs {
		if err := unpack(ctx, deb, dir); err != nil {
			return err
		}
		if name := filepath.Base(deb); !slices.Contains(img.Packages, name) {
			img.Packages = append(img.Packages, name)
		}
	}
	return nil
}

// mergeUsr lays out the links that base-files would.
func mergeUsr(root string) error {
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(root, "usr", name), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+name, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

// unpack extracts the files of a .deb. Nothing of it is installed: no maintainer
// script runs, here or in the machine.
func unpack(ctx context.Context, deb, dir string) error {
	extract := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	untar := exec.CommandContext(ctx, "tar", "-x", "-C", dir, "--keep-directory-symlink", "--no-same-owner")
	pipe, err := extract.StdoutPipe()
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	untar.Stdin, extract.Stderr, untar.Stderr = pipe, &stderr, &stderr
	if err := extract.Start(); err != nil {
		return fmt.Errorf("rxepeer: dpkg-deb: %w", err)
	}
	err = errors.Join(untar.Run(), extract.Wait())
	if err != nil {
		return fmt.Errorf("rxepeer: unpack %s: %w\n%s", filepath.Base(deb), err, tail(stderr.Bytes(), 2000))
	}
	return nil
}

// prune removes what no test reads: documentation, translations, shell completion.
func prune(root string) error {
	for _, name := range []string{"doc", "man", "locale", "lintian", "bug", "bash-completion", "zsh", "fish", "perl5", "info", "initramfs-tools", "iperf3", "perftest"} {
		if err := os.RemoveAll(filepath.Join(root, "usr/share", name)); err != nil {
			return err
		}
	}
	return nil
}

// packInitrd writes the tree as a zstd-compressed cpio and returns both sizes.
func packInitrd(root, name string) (tree, packed int64, err error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	// The kernel's decoder refuses windows above 128 MiB; 8 MiB is plenty.
	zw, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(8<<20))
	if err != nil {
		return 0, 0, err
	}
	counted := &countWriter{w: zw}
	if err := writeTree(counted, root); err != nil {
		return 0, 0, err
	}
	if err := zw.Close(); err != nil {
		return 0, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	return counted.n, info.Size(), f.Close()
}

type countWriter struct {
	w interface{ Write([]byte) (int, error) }
	n int64
}

func (c *countWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
