// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !(amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package platform

// The name is the message of the compiler: "undefined: softroce_xdp_runs_on_64_bit_Linux_only".
var _ = softroce_xdp_runs_on_64_bit_Linux_only
