// SPDX-License-Identifier: Apache-2.0

// Command softroce-sim simulates congestion control, packet by packet.
package main

import (
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/softroce-sim/internal/sim"
)

var program = cli.Program{Name: "softroce-sim", Root: sim.New, Misuse: sim.Misuse}

func main() { program.Main() }
