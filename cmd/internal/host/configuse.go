// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
)

// ReadConfig applies the part of the configuration file that the command uses; the command line
// has precedence. A mistake in the file stops only commands that use the wrong part. The commands of the root named in
// whole use all of it, those in places only pin-root and run-dir, and others nothing.
func (a *App) ReadConfig(cmd *cobra.Command, whole, places []string) error {
	top := cmd
	for top.HasParent() && top.Parent().HasParent() {
		top = top.Parent()
	}
	var err error
	switch {
	case slices.Contains(whole, top.Name()):
		err = a.ReadWhole(cmd)
	case slices.Contains(places, top.Name()):
		err = a.readPlaces(cmd)
	}
	if err != nil {
		return err
	}
	return a.checkPlaces()
}

// checkPlaces makes the directories absolute: the agent and later commands may have
// other working directories.
func (a *App) checkPlaces() (err error) {
	for name, dir := range map[string]*string{"pin-root": &a.PinRoot, "run-dir": &a.RunDir} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
	}
	return nil
}

// ReadWhole applies all of the configuration file to the flags of the root.
func (a *App) ReadWhole(cmd *cobra.Command) error {
	err := a.readFile()
	if err == nil {
		err = a.File.Global(cmd.Root().PersistentFlags())
	}
	return a.configError(err)
}

// readPlaces applies pin-root and run-dir. If the file cannot be parsed, the command continues
// with their defaults after a warning.
func (a *App) readPlaces(cmd *cobra.Command) error {
	err := a.readFile()
	if errors.Is(err, fs.ErrNotExist) {
		return a.configError(err)
	}
	flags := cmd.Root().PersistentFlags()
	if a.File != nil {
		if err := a.File.Global(flags, "pin-root", "run-dir"); err != nil {
			return a.configError(err)
		}
	}
	known := func(name string) bool { return flags.Changed(name) || a.File.Sets(name) }
	if err != nil && (!known("pin-root") || !known("run-dir")) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %v; pin-root and run-dir have their defaults\n", cmd.Root().Name(), err)
	}
	return nil
}

func (a *App) readFile() (err error) {
	if a.ConfigPath == "" {
		a.File, err = ReadDefault()
	} else {
		a.File, err = Read(a.ConfigPath)
	}
	return err
}

func (a *App) configError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return cli.Usage(fmt.Errorf("--config: there is no file %s", a.ConfigPath))
	default:
		return cli.PlainUsage(err)
	}
}
