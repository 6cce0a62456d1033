// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

// Package platform does not compile but on 64-bit Linux: its rings have 64-bit indices in shared memory, and the data
// plane is that of Linux. A package that needs it imports this one, so that `go build` for another platform says
// that and nothing else.
package platform
