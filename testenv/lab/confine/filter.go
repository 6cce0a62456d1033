// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"fmt"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data, and return values of a filter (linux/seccomp.h).
const (
	dataNumber   = 0
	dataArch     = 4
	dataArgument = 16 // 8 bytes each; the low half is first on a little-endian machine

	returnErrno = 0x00050000
	returnAllow = 0x7fff0000
	returnKill  = 0x80000000
)

var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

func refuse(e unix.Errno) bpf.RetConstant { return bpf.RetConstant{Val: returnErrno | uint32(e)} }

// when runs instructions for one system call. They load what they need, and fall through to what follows.
func when(number uint32, body ...bpf.Instruction) []bpf.Instruction {
	head := []bpf.Instruction{bpf.LoadAbsolute{Off: dataNumber, Size: 4}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: number, SkipTrue: uint8(len(body))}}
	return append(head, body...)
}

// argument loads the low half of an argument.
func argument(n uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: dataArgument + 8*n, Size: 4} }

// namespaceFlags are the flags of clone(2) for namespaces, by the names of RestrictNamespaces.
var namespaceFlags = map[string]uint32{
	"cgroup": unix.CLONE_NEWCGROUP, "ipc": unix.CLONE_NEWIPC, "net": unix.CLONE_NEWNET, "mnt": unix.CLONE_NEWNS,
	"pid": unix.CLONE_NEWPID, "user": unix.CLONE_NEWUSER, "uts": unix.CLONE_NEWUTS,
}

func (u Unit) namespaces() (p []bpf.Instruction, err error) {
	words := u.Words("RestrictNamespaces")
	if len(words) == 0 || slices.Equal(words, []string{"no"}) {
		return nil, nil
	}
	var refused uint32
	for _, f := range namespaceFlags {
		refused |= f
	}
	for _, w := range words {
		f, ok := namespaceFlags[w]
		if !ok && w != "yes" {
			return nil, fmt.Errorf("RestrictNamespaces: %q is not supported: name the namespaces that are allowed", w)
		}
		refused &^= f
	}
	some := bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: refused, SkipTrue: 1}
	p = append(p, when(unix.SYS_CLONE, argument(0), some, refuse(unix.EPERM))...)
	p = append(p, when(unix.SYS_UNSHARE, argument(0), some, refuse(unix.EPERM))...)
	p = append(p, when(unix.SYS_SETNS, argument(1), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, some, refuse(unix.EPERM))...)
	return append(p, when(unix.SYS_CLONE3, refuse(unix.ENOSYS))...), nil
}

var families = map[string]uint32{
	"AF_INET": unix.AF_INET, "AF_INET6": unix.AF_INET6, "AF_NETLINK": unix.AF_NETLINK, "AF_UNIX": unix.AF_UNIX, "AF_XDP": unix.AF_XDP, "AF_PACKET": unix.AF_PACKET,
}

func (u Unit) families() ([]bpf.Instruction, error) {
	words := u.Words("RestrictAddressFamilies")
	if len(words) == 0 {
		return nil, nil
	}
	body := []bpf.Instruction{argument(0)}
	for i, w := range words {
		f, ok := families[w]
		if !ok {
			return nil, fmt.Errorf("RestrictAddressFamilies: %q is not supported", w)
		}
		body = append(body, bpf.JumpIf{Cond: bpf.JumpEqual, Val: f, SkipTrue: uint8(len(words) - i)})
	}
	return when(unix.SYS_SOCKET, append(body, refuse(unix.EAFNOSUPPORT))...), nil
}

func (u Unit) executableMemory() (p []bpf.Instruction) {
	if !u.Yes("MemoryDenyWriteExecute") {
		return nil
	}
	both := bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: unix.PROT_WRITE | unix.PROT_EXEC}
	p = append(p, when(unix.SYS_MMAP, argument(2), both, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.PROT_WRITE | unix.PROT_EXEC, SkipTrue: 1}, refuse(unix.EPERM))...)
	exec := bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.PROT_EXEC, SkipTrue: 1}
	p = append(p, when(unix.SYS_MPROTECT, argument(2), exec, refuse(unix.EPERM))...)
	return append(p, when(unix.SYS_PKEY_MPROTECT, argument(2), exec, refuse(unix.EPERM))...)
}

// filter returns the seccomp filter of a unit, as systemd makes it.
func (u Unit) filter() ([]bpf.RawInstruction, error) {
	arch, ok := auditArch[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("no filter for %s", runtime.GOARCH)
	}
	if !u.Is("SystemCallErrorNumber", "EPERM") {
		return nil, fmt.Errorf("SystemCallErrorNumber: %q is not supported: only EPERM is", u["SystemCallErrorNumber"])
	}
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArch, Size: 4}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1}, bpf.RetConstant{Val: returnKill},
	}
	names, err := u.namespaces()
	if err != nil {
		return nil, err
	}
	sockets, err := u.families()
	if err != nil {
		return nil, err
	}
	p = append(append(append(p, names...), sockets...), u.executableMemory()...)
	calls, err := u.allowed()
	if err != nil {
		return nil, err
	}
	if calls != nil {
		p = append(p, bpf.LoadAbsolute{Off: dataNumber, Size: 4})
		for _, n := range slices.Sorted(maps.Keys(calls)) {
			p = append(p, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: n, SkipTrue: 1}, bpf.RetConstant{Val: returnAllow})
		}
		return bpf.Assemble(append(p, refuse(unix.EPERM)))
	}
	return bpf.Assemble(append(p, bpf.RetConstant{Val: returnAllow}))
}
