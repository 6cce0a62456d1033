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
	testscript.Main(m, map[string]func(){"softroce-sim": main})
}

// The scripts need nothing.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", Cmds: script.Commands(nil), UpdateScripts: os.Getenv("UPDATE") != "", RequireExplicitExec: true,
	})
}

// scenarioText is a run of some milliseconds; %s is what its utilisation must be.
const scenarioText = `name: tiny
title: Two to one
topology: {kind: star, hosts: 3}
links: {host: 10Gbit/s, delay: 1us}
schemes: [dcqcn]
traffic:
  - flows: {from: 1-2, to: 0}
measure: {from: 1ms, to: 2ms, at: down 0}
seeds: [1]
criteria: {utilisation: ">= `

// Every command has each code.
func TestExitCodes(t *testing.T) {
	p := script.Program{
		Name: "softroce-sim", Run: program.Run, Root: program.Command, Codes: cli.ExitNumbers(), Cases: exitCases, Closed: []string{"list"},
		Files: map[string]string{
			"text.yaml": "This is no scenario.\n", "good.yaml": scenarioText + "0.1\"}\n", "missed.yaml": scenarioText + "1.1\"}\n",
		},
	}
	p.TestExits(t)
}

var exitCases = []script.ExitCase{
	{"runn", 1, "did you mean run?"},
	{"list", 0, "incast-8"},
	{"list x", 1, "takes no arguments"},
	{"show incast-8", 0, "name: incast-8"},
	{"show", 1, "NAME is missing"},
	{"show incst-8", 1, "did you mean incast-8?"},
	{"run good.yaml", 0, "VERDICT"},
	{"run", 1, "SCENARIO... is missing"},
	{"run text.yaml", 1, "text.yaml: line 1: expected keys"},
	{"run missed.yaml", 0, "MISSED utilisation"},
	{"run --check missed.yaml", 3, "1 criterion missed"},
	{"run good.yaml --csv absent/x.csv", 2, "no such file or directory"},
	{"run good.yaml --plot text", 2, "not a directory"},
}
