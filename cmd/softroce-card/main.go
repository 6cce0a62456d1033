// SPDX-License-Identifier: Apache-2.0

// Command softroce-card drives a card that does in hardware what softroce-xdp does on an interface.
package main

import (
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/policy"
	"github.com/softroce/softroce-xdp/cmd/softroce-card/internal/card"
)

var program = cli.Program{Name: "softroce-card", Root: card.New, Misuse: policy.Misuse}

func main() { program.Main() }
