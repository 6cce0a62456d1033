// SPDX-License-Identifier: Apache-2.0

// Command report synthesizes the modules of the card with yosys, and writes what they take of
// an FPGA to docs/card/card-rtl.txt (`make rtl-report`). Modules whose circuit has not changed since
// the last report keep their line.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/softroce/softroce-xdp/hwoffload/rtl/modules"
)

func main() {
	dir := flag.String("dir", "hwoffload/rtl", "folder of the sources")
	out := flag.String("out", "docs/card/card-rtl.txt", "the report")
	all := flag.Bool("all", false, "synthesize all modules, also those that have not changed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, *out, *all); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// ofDefinition has the modules that change with each register of the definition. The test does not
// demand that their rows are of the present definition: their fingerprints tell.
var ofDefinition = map[string]bool{"softroce_card": true, "softroce_decode": true, "register_store": true}

func run(ctx context.Context, dir, out string, all bool) error {
	sources, err := modules.Read(dir)
	if err != nil {
		return err
	}
	version, err := yosysVersion(ctx)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(out)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	rows := map[string]row{}
	write := func() error { return os.WriteFile(out, []byte(format(rows, version)), 0o666) }
	old := parse(string(text), version)
	for _, m := range sources.Modules() {
		if r, ok := old[m]; ok && !all && r.fingerprint == sources.Fingerprint(m) {
			rows[m] = r
		}
	}
	for _, m := range sources.Modules() {
		if _, ok := rows[m]; ok {
			continue
		}
		fmt.Fprintln(os.Stderr, "yosys:", m)
		cells, err := synthesize(ctx, m, sources.Files(m))
		if err != nil {
			return err
		}
		r := count(cells)
		r.module, r.fingerprint = m, sources.Fingerprint(m)
		rows[m] = r
		if err := write(); err != nil { // an interruption loses one module
			return err
		}
	}
	return write()
}
