// SPDX-License-Identifier: Apache-2.0

// Package host is what commands know of this host: where pins and state are, the configuration file, the attached
// interfaces, and how a device or an engine of one is opened.
package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/loader"
)

// App has the settings of commands that work on attached interfaces: where pins and state are.
type App struct {
	PinRoot, RunDir, ConfigPath string

	File *File
}

// Flags adds the flags, and sets the defaults.
func (a *App) Flags(f *pflag.FlagSet) {
	f.StringVar(&a.ConfigPath, "config", "", "configuration file (default "+DefaultPath+", if it exists)")
	a.PinRoot, a.RunDir = loader.DefaultPinRoot, loader.DefaultRunDir
	f.Var(cli.DirVar(&a.PinRoot), "pin-root", "directory of the pinned maps, on a bpf file system")
	f.Var(cli.DirVar(&a.RunDir), "run-dir", "directory of state files and logs")
}

// Options returns the options that find an existing attachment.
func (a *App) Options() loader.Options {
	return loader.Options{PinRoot: a.PinRoot, RunDir: a.RunDir, Version: cli.Version}
}

// One returns the interface of a command that works on one: the argument, or the only
// interface that is attached.
func (a *App) One(args []string) (string, error) {
	if len(args) > 0 {
		names, err := a.RealNames(args[:1])
		if err != nil {
			return "", err
		}
		return names[0], loader.CheckHere(names[0], a.Options())
	}
	ours, others, err := loader.Attached(a.Options())
	switch {
	case err != nil:
		return "", err
	case len(ours)+len(others) == 0:
		return "", errors.New("no interface is attached: run `softroce-xdp attach IF`")
	case len(ours) == 0:
		return "", fmt.Errorf("no interface of this network namespace is attached: %w", loader.CheckHere(others[0], a.Options()))
	case len(ours) > 1:
		return "", cli.Usagef("several interfaces are attached, name one: %s", strings.Join(ours, ", "))
	}
	return ours[0], nil
}

// CheckName refuses strings that cannot be the name of an interface, and would be paths. An altname
// has up to 127 characters.
func CheckName(name string) error {
	if name == "" || len(name) > 127 || name == "." || name == ".." || strings.ContainsAny(name, "/ \t\n:%") {
		return cli.Usagef("%q is no name of an interface (see `ip link`)", name)
	}
	return nil
}

// RealNames checks the interfaces that the user named, and returns the names under which they are
// attached or can be: an altname stands for the name of its interface, and the present name of an
// interface for the one under which it was attached.
func (a *App) RealNames(names []string) (found []string, err error) {
	seen := map[string]bool{}
	for _, n := range names {
		if err := CheckName(n); err != nil {
			return nil, err
		}
		name := loader.RealName(n, a.Options())
		if len(name) > 15 { // of an interface that exists it would be shorter
			return nil, cli.Usagef("%q is no name of an interface (see `ip link`)", name)
		}
		if seen[name] {
			return nil, cli.Usagef("%s is named twice", n)
		}
		seen[name] = true
		found = append(found, name)
	}
	return found, nil
}

// CompleteAttached completes names of attached interfaces in the shell.
func (a *App) CompleteAttached(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	names, _, _ := loader.Attached(a.Options())
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteInterfaces completes names of all interfaces.
func CompleteInterfaces(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	paths, _ := filepath.Glob("/sys/class/net/*")
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	return paths, cobra.ShellCompDirectiveNoFileComp
}

// Hint returns what to do about an error of an interface.
func Hint(err error) string {
	if errors.Is(err, loader.ErrNotAttached) {
		return "`softroce-xdp status` shows what is attached."
	}
	return ""
}
