// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"softroce-card": main})
}

// commands that the scripts have besides those of package script:
//
//	barfile FILE [short|future]  writes a file that serves as the BAR of a card, but is too
//	                             short, or of a version that is not known
//	livecard SOCKET [stop]       serves a card whose nodes 2 to 4 get data, or ends it
//	cardpair SOCKET SOCKET       serves two cards that send to each other
var commands = script.Commands(map[string]script.Command{"barfile": barFile, "livecard": liveCard, "cardpair": cardPair})

// The scripts need nothing.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", Cmds: commands, UpdateScripts: os.Getenv("UPDATE") != "", RequireExplicitExec: true,
	})
}

// Every command has each code that needs no card; the others are in the scripts.
func TestExitCodes(t *testing.T) {
	p := script.Program{
		Name: "softroce-card", Run: program.Run, Root: program.Command, Codes: cli.ExitNumbers(), Cases: exitCases, Places: []string{"run-dir"},
	}
	p.TestExits(t)
}

var exitCases = []script.ExitCase{
	{"tabel", 1, "did you mean table?"},
	{"attach", 1, "DEV is missing: softroce-card attach DEV"},
	{"attach ./nosuch7", 2, "no such file or directory"},
	{"attach unix:nosuch7", 2, "no such file or directory"},
	{"attach text", 1, `"text" is no card`},
	{"attach ./text", 2, "the BAR has 20 bytes, a softroce card has 536870912"},
	{"attach .", 1, `"." is no card`},
	{"attach ./", 2, "is a directory"},
	{"status", 0, "no card is attached"},
	{"status --check", 3, "no card is attached"},
	{"status a", 1, `"a" is no card`},
	{"table", 1, "no card is attached: name one"},
	{"table 99:1f.7", 2, "there is no PCI device 0000:99:1f.7"},
	{"stats --watch=x", 1, "neither true nor false"},
	{"stats unix:nosuch7", 2, "no such file or directory"},
	{"policy show a b", 1, "one argument too many"},
	{"policy show unix:nosuch7", 2, "no such file or directory"},
	{"policy set unix:nosuch7", 1, "name at least one parameter"},
	{"policy set unix:nosuch7 --target 1ms", 2, "no such file or directory"},
	{"precredit show a b", 1, "one argument too many"},
	{"precredit show unix:nosuch7", 2, "no such file or directory"},
	{"precredit enable unix:nosuch7 --budget 2G", 1, "not between 1 byte and 1G"},
	{"precredit enable unix:nosuch7", 2, "no such file or directory"},
	{"precredit disable a b", 1, "one argument too many"},
	{"precredit disable unix:nosuch7", 2, "no such file or directory"},
	{"ddr read unix:nosuch7 0", 1, "DEV ADDRESS LENGTH is missing"},
	{"ddr read unix:nosuch7 0 1", 2, "no such file or directory"},
	{"ddr write unix:nosuch7", 1, "DEV ADDRESS is missing"},
	{"ddr write unix:nosuch7 0", 2, "no such file or directory"},
	{"regs", 1, "DEV [BLOCK] is missing"},
	{"regs unix:nosuch7 dset", 1, "did you mean dest?"},
	{"regs unix:nosuch7", 2, "no such file or directory"},
	{"model", 1, "unix:PATH is missing"},
	{"model text", 1, "write unix: and the path of the socket"},
	{"model unix:text", 2, "is no socket"},
}
