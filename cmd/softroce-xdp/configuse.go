// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/config"
)

// pinCommands read only pin-root and run-dir of the configuration file. Attach reads all of it,
// the other commands do not read it.
var pinCommands = []string{"detach", "status", "table", "top", "stats", "policy", "perf", "ping", "pool", "compute", "clean"}

// readConfig applies the part of the configuration file that the command uses; the command line
// has precedence. A mistake in the file stops only commands that use the wrong part.
func (a *app) readConfig(cmd *cobra.Command) error {
	top := cmd
	for top.HasParent() && top.Parent().HasParent() {
		top = top.Parent()
	}
	var err error
	switch {
	case top.Name() == "attach":
		err = a.readWhole(cmd)
	case slices.Contains(pinCommands, top.Name()):
		err = a.readPlaces(cmd)
	}
	if err != nil {
		return err
	}
	return a.checkPlaces()
}

// checkPlaces makes the directories absolute: the agent and later commands may have
// other working directories.
func (a *app) checkPlaces() (err error) {
	for name, dir := range map[string]*string{"pin-root": &a.pinRoot, "run-dir": &a.runDir} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
	}
	return nil
}

func (a *app) readWhole(cmd *cobra.Command) error {
	err := a.readFile()
	if err == nil {
		err = a.file.Global(cmd.Root().PersistentFlags())
	}
	return a.configError(err)
}

// readPlaces applies pin-root and run-dir. If the file cannot be parsed, the command continues
// with their defaults after a warning.
func (a *app) readPlaces(cmd *cobra.Command) error {
	err := a.readFile()
	if errors.Is(err, fs.ErrNotExist) {
		return a.configError(err)
	}
	flags := cmd.Root().PersistentFlags()
	if a.file != nil {
		if err := a.file.Global(flags, "pin-root", "run-dir"); err != nil {
			return a.configError(err)
		}
	}
	known := func(name string) bool { return flags.Changed(name) || a.file.Sets(name) }
	if err != nil && (!known("pin-root") || !known("run-dir")) {
		fmt.Fprintf(cmd.ErrOrStderr(), "softroce-xdp: warning: %v; pin-root and run-dir have their defaults\n", err)
	}
	return nil
}

func (a *app) readFile() (err error) {
	if a.configPath == "" {
		a.file, err = config.ReadDefault()
	} else {
		a.file, err = config.Read(a.configPath)
	}
	return err
}

func (a *app) configError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return usageError{fmt.Errorf("--config: there is no file %s", a.configPath), false}
	default:
		return usageError{err, true}
	}
}
