// SPDX-License-Identifier: Apache-2.0

// Command softroce-pool lends memory to other hosts, and uses that of other hosts.
package main

import (
	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/cmd/softroce-pool/internal/pool"
)

var program = cli.Program{Name: "softroce-pool", TableLayout: bpf.ABIVersion, Root: pool.New, Hint: host.Hint}

func main() { program.Main() }
