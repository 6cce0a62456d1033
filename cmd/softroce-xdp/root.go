// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/config"
	"github.com/softroce/softroce-xdp/loader"
)

// app has the flags and settings that all commands share.
type app struct {
	pinRoot, runDir, configPath string
	logLevel, logFormat         choice

	file   *config.File
	parsed bool // the command line was accepted: later errors have exitSystem by default
}

func newRoot(a *app) *cobra.Command {
	a.logLevel = choice{value: "info", of: []string{"debug", "info", "warn", "error"}}
	a.logFormat = choice{value: "text", of: []string{"text", "json"}}
	root := &cobra.Command{
		Use:   "softroce-xdp",
		Short: "A RoCEv2 NIC in software, with congestion control per destination",
		Long: `softroce-xdp attaches XDP and TC programs to a Linux interface. From then on the
RoCEv2 traffic through it (Linux rxe, for example) is stamped with its time of
departure. A table has the transmit and receive times of every destination, and a
policy sets each destination's rate from them. All other traffic passes untouched.` + exitHelp(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
	}
	root.SetVersionTemplate("softroce-xdp {{.Version}}\n")
	f := root.PersistentFlags()
	f.StringVar(&a.configPath, "config", "", "configuration file (default "+config.DefaultPath+", if it exists)")
	a.pinRoot, a.runDir = loader.DefaultPinRoot, loader.DefaultRunDir
	f.Var(dirVar{&a.pinRoot}, "pin-root", "directory of the pinned maps, on a bpf file system")
	f.Var(dirVar{&a.runDir}, "run-dir", "directory of state files and logs")
	f.Var(&a.logLevel, "log-level", "debug, info, warn or error")
	f.Var(&a.logFormat, "log-format", "text or json")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.readConfig(cmd); err != nil {
			return err
		}
		a.parsed = true
		return nil
	}
	group(root,
		newAttach(a), newDetach(a), newStatus(a), newTable(a), newTop(a), newStats(a), newMetrics(a),
		newPolicy(a), newCard(a), newFeatures(a), newPerf(a), newPing(a), newKey(), newCompute(a), newPool(a), newSim(), newDecode(), newClean(a), newVersion(), newMan(), newAgent(a))
	return root
}

// options returns the options that find an existing attachment.
func (a *app) options() loader.Options {
	return loader.Options{PinRoot: a.pinRoot, RunDir: a.runDir, Version: version}
}

// one returns the interface of a command that works on one: the argument, or the only
// interface that is attached.
func (a *app) one(args []string) (string, error) {
	if len(args) > 0 {
		names, err := a.realNames(args[:1])
		if err != nil {
			return "", err
		}
		return names[0], loader.CheckHere(names[0], a.options())
	}
	ours, others, err := loader.Attached(a.options())
	switch {
	case err != nil:
		return "", err
	case len(ours)+len(others) == 0:
		return "", errors.New("no interface is attached: run `softroce-xdp attach IF`")
	case len(ours) == 0:
		return "", fmt.Errorf("no interface of this network namespace is attached: %w", loader.CheckHere(others[0], a.options()))
	case len(ours) > 1:
		return "", usagef("several interfaces are attached, name one: %s", strings.Join(ours, ", "))
	}
	return ours[0], nil
}

// checkName refuses strings that cannot be the name of an interface, and would be paths. An altname
// has up to 127 characters.
func checkName(name string) error {
	if name == "" || len(name) > 127 || name == "." || name == ".." || strings.ContainsAny(name, "/ \t\n:%") {
		return usagef("%q is no name of an interface (see `ip link`)", name)
	}
	return nil
}

// realNames checks the interfaces that the user named, and returns the names under which they are
// attached or can be: an altname stands for the name of its interface, and the present name of an
// interface for the one under which it was attached.
func (a *app) realNames(names []string) (found []string, err error) {
	seen := map[string]bool{}
	for _, n := range names {
		if err := checkName(n); err != nil {
			return nil, err
		}
		name := loader.RealName(n, a.options())
		if len(name) > 15 { // of an interface that exists it would be shorter
			return nil, usagef("%q is no name of an interface (see `ip link`)", name)
		}
		if seen[name] {
			return nil, usagef("%s is named twice", n)
		}
		seen[name] = true
		found = append(found, name)
	}
	return found, nil
}

// completeAttached completes names of attached interfaces in the shell.
func (a *app) completeAttached(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	names, _, _ := loader.Attached(a.options())
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeInterfaces completes names of all interfaces.
func completeInterfaces(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	paths, _ := filepath.Glob("/sys/class/net/*")
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	return paths, cobra.ShellCompDirectiveNoFileComp
}
