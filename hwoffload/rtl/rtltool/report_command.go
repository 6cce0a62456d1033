// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
)

// reportCommand synthesizes the modules of the card with yosys, and writes what they take of an FPGA
// to docs/card/card-rtl.txt (`make rtl-report`). Modules whose circuit has not changed since the last
// report keep their line.
func reportCommand(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("rtltool report", flag.ExitOnError)
	dir := flags.String("dir", "hwoffload/rtl", "folder of the sources")
	out := flags.String("out", "docs/card/card-rtl.txt", "the report")
	all := flags.Bool("all", false, "synthesize all modules, also those that have not changed")
	_ = flags.Parse(args) // it ends the process on an error
	return report(ctx, *dir, *out, *all)
}

// ofDefinition has the modules that change with each register of the definition. The test does not
// demand that their rows are of the present definition: their fingerprints tell.
var ofDefinition = map[string]bool{"softroce_card": true, "softroce_decode": true, "register_store": true}

func report(ctx context.Context, dir, out string, all bool) error {
	sources, err := readModules(dir)
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
	for _, m := range sources.modules() {
		if r, ok := old[m]; ok && !all && r.fingerprint == sources.fingerprint(m) {
			rows[m] = r
		}
	}
	for _, m := range sources.modules() {
		if _, ok := rows[m]; ok {
			continue
		}
		fmt.Fprintln(os.Stderr, "yosys:", m)
		cells, err := synthesize(ctx, m, sources.files(m))
		if err != nil {
			return err
		}
		r := count(cells)
		r.module, r.fingerprint = m, sources.fingerprint(m)
		rows[m] = r
		if err := write(); err != nil { // an interruption loses one module
			return err
		}
	}
	return write()
}
