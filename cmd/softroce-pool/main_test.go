// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/softroce-pool/internal/pool"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == pool.MapProcess { // the maps of `softroce-pool map` start this binary
		main()
	}
	testscript.Main(m, map[string]func(){"softroce-pool": main})
}

// The scripts of testdata/script need nothing; those of testdata/net are run as
// root on two hosts in network namespaces.

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", Cmds: script.Commands(nil), UpdateScripts: os.Getenv("UPDATE") != "", RequireExplicitExec: true,
	})
}

func TestNetScripts(t *testing.T) {
	require.Root(t)
	require.Command(t, "nsenter", "setpriv", "ip")
	programs := script.Build(t, "softroce-xdp")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/net", Cmds: script.Commands(nil), Setup: script.With(programs, script.BuildHosts),
		UpdateScripts: os.Getenv("UPDATE") != "", RequireExplicitExec: true,
	})
}

// Every command has each code that needs no attached interface; the others are in the scripts.
func TestExitCodes(t *testing.T) {
	p := script.Program{
		Name: "softroce-pool", Run: program.Run, Root: program.Command, Codes: cli.ExitNumbers(), Cases: exitCases,
		Places: []string{"pin-root", "run-dir"}, Terminal: []string{"top"},
	}
	p.TestExits(t)
}

var exitCases = []script.ExitCase{
	{"serve a", 1, "takes no arguments"},
	{"serve --bytes 1X", 1, "--bytes"},
	{"serve --bytes 1K", 1, "--bytes 1K: choose 1 to 1048576 times --slab"},
	{"serve --slab 6K", 1, "--slab 6K: choose a multiple of 4K up to 1G"},
	{"serve --slab 1X", 1, "--slab"},
	{"serve --grace 2h", 1, "2h"},
	{"serve --listen :port", 1, `"port" is no port`},
	{"serve --dev nosuch7", 2, "not attached"},
	{"join", 1, "HOST[:PORT] is missing"},
	{"join h --directory http://127.0.0.1:1", 1, "give one of them"},
	{"join h --mirror", 1, "--mirror needs several servers: give --directory"},
	{"join --directory h", 1, "write http://HOST:2379"},
	{"serve --directory h", 1, "write http://HOST:2379"},
	{"serve --directory http://h --name a/b", 1, "a name of a server has"},
	{"status --directory http://127.0.0.1:1", 2, "does etcd run there?"},
	{"status h --directory http://h", 1, "give one of them"},
	{"join :7178", 1, "the host is missing"},
	{"join h --bytes 1X", 1, "--bytes"},
	{"join h --period 1ms", 1, "1ms"},
	{"join h --name a-name-that-is-too-long", 1, "1 to 20 bytes"},
	{"join h --dev nosuch7", 2, "not attached"},
	{"map", 1, "HOST[:PORT] is missing"},
	{"map :7178", 1, "the host is missing"},
	{"map h --bytes 6K", 1, "--bytes 6K: choose a multiple of 4K up to"},
	{"map h --local 4K", 1, "--local 4K: choose at least 64K"},
	{"map h --local 1X", 1, "--local"},
	{"map h --name a-name-that-is-too-long", 1, "1 to 20 bytes"},
	{"map h --deadline 0s", 1, "0s"},
	{"map h --dev nosuch7", 2, "not attached"},
	{"leave", 1, "HOST[:PORT] is missing"},
	{"leave h --name a-name-that-is-too-long", 1, "1 to 20 bytes"},
	{"leave h --dev nosuch7", 2, "not attached"},
	{"status", 1, "HOST[:PORT] is missing"},
	{"status h:port", 1, `"port" is no port`},
	{"status h --dev nosuch7", 2, "not attached"},
	{"top", 1, "HOST[:PORT] is missing"},
	{"top h:port", 1, `"port" is no port`},
	{"top h", 1, "top needs a terminal: use `softroce-pool status` here"},
	{"top h --interval 1us", 1, "1us"},
	{"bench", 1, "HOST[:PORT] is missing"},
	{"bench h --bytes 1K", 1, "--bytes 1K: choose 1M to 1T"},
	{"bench h --local 1X", 1, "--local"},
	{"bench h --local 64M", 1, "--local 64M: choose at least 64K, and less than --bytes"},
	{"bench h --name a-name-that-is-too-long", 1, "1 to 20 bytes"},
	{"bench h --dev nosuch7", 2, "not attached"},
	{"metrics", 1, "HOST[:PORT]... is missing"},
	{"metrics :7178", 1, "the host is missing"},
	{"metrics h h:7178", 1, "h:7178 stands twice"},
	{"metrics h --timeout 0s", 1, "0s"},
	{"metrics h --output .", 1, "it is no regular file"},
	{"metrics h", 2, "this needs a device that an agent serves"},
	{"metrics h --dev nosuch7", 2, "this needs a device that an agent serves"},
	{"map-process a", 1, "takes no arguments"},
	{"map-process", 2, "softroce-pool map starts this process"},
}

// The list of the metrics is made from the program. UPDATE=1 writes it.
func TestDocsMetrics(t *testing.T) {
	var families strings.Builder
	families.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range pool.Families() {
		fmt.Fprintf(&families, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, strings.Join(f.Labels, ", "), f.Help)
	}
	script.CheckDoc(t, script.OperationsPage, map[string]string{"pool metrics": families.String()})
}
