// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// recipe is all that decides what an image holds, apart from the versions that
// the mirror offers on the day. Its hash names the cache folder, so a change here
// builds a new image.
type recipe struct {
	Format int    // raised when the builder itself changes what it writes
	Mirror string // Debian mirror, from the host's apt configuration
	Suite  string // Debian release; its kernel line is part of the promise
	Kernel string // metapackage whose only dependency is the kernel
	// KernelSuite is the release of the kernel where it is not Suite.
	KernelSuite string   `json:",omitempty"`
	Packages    []string // user land, with dependencies
	LeaveOut    []string // dependencies of maintainer scripts; nothing runs them here
	Modules     []string // kernel modules, with dependencies

	// Emulator is qemu of the same release, run with its own libraries, so that every host
	// emulates alike. Under Debian 12's 7.2 a machine once died in traffic: an address had got
	// into its flags register, then an unexpected debug trap.
	Emulator []string

	// Sysroot is what the host's C compiler needs to build programs that run in the machine
	// (Image.CompileC): headers and libraries of the same release as the user land.
	Sysroot []string
}

// Debian releases whose kernels the machines can run; their user land is always that of the
// newest.
const (
	Debian12 = "bookworm" // Linux 6.1: no TCX
	Debian13 = "trixie"   // Linux 6.12
)

// debianRecipe is the image with the kernel of a release.
func debianRecipe(mirror, release string) (recipe, error) {
	r := recipe{
		Format: 2,
		Mirror: mirror,
		Suite:  Debian13,
		Kernel: "linux-image-amd64",
		Packages: []string{
			"busybox", "kmod", "iproute2", "ethtool", "tcpdump", "iperf3", "bpftool",
			"ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "perftest",
		},
		LeaveOut: []string{
			"adduser", "base-passwd", "debconf", "gcc-14-base", "init-system-helpers",
			"libaudit-common", "libdb5.3t64", "libpam-modules", "libpam-modules-bin",
			"libsemanage-common", "libsemanage2", "libsepol2", "login.defs",
			"openssl-provider-legacy", "passwd", "pci.ids",
		},
		Modules: []string{
			"virtio_net", "virtio-rng",
			"rdma_rxe", "rdma_cm", "rdma_ucm", "ib_uverbs", "ib_umad", "configfs",
			// rxe asks the crypto API for crc32.
			"crc32_generic", "crc32_pclmul",
			"sch_fq", "sch_netem", "sch_htb", "sch_tbf", "sch_prio", "sch_ingress",
			"cls_bpf", "cls_u32", "cls_matchall", "act_gact", "act_mirred",
			"veth", "ifb", "dummy", "bridge", "8021q", "tun",
			"9p", "9pnet_virtio",
		},
		Emulator: []string{"qemu-system-x86"},
		Sysroot:  []string{"libc6-dev", "libibverbs-dev"},
	}
	switch release {
	case "", r.Suite:
	case Debian12:
		r.KernelSuite = release
		r.Modules = append(r.Modules, "virtio_pci", "virtio_console") // built in later on
	default:
		return r, fmt.Errorf("rxepeer: no kernel of Debian %q: choose %s or %s", release, Debian12, Debian13)
	}
	return r, nil
}

// hash names the recipe in 16 hex digits.
func (r recipe) hash() string {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // a struct of strings always marshals
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
