// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/internal/files"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// loaderConfig has the directory of the library for the loader of the whole machine. Its name puts it before others.
// Tests of exit codes set another one.
var loaderConfig = "/etc/ld.so.conf.d/00-softroce-xdp.conf"

// configHead begins loaderConfig.
const configHead = "# Made by `softroce-xdp verbs install`. `softroce-xdp verbs uninstall` removes it.\n"

func newVerbs(a *host.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verbs",
		Short: "Install libibverbs of this project for all programs, or show what they load",
		Long: `Verbs installs libibverbs.so.1 of this project for the whole machine: each program that
uses libibverbs loads it, and has the devices that agents serve (attach --nic). For
single programs, and to have the files in /dev and /sys that UCX and NCCL read, use
"softroce-xdp run".`,
	}
	return cli.Group(cmd, newVerbsInstall(), newVerbsUninstall(), newVerbsStatus(a))
}

// libraryFlag adds the flag --library.
func libraryFlag(cmd *cobra.Command, library *string) {
	cmd.Flags().Var(cli.DirVar(library), "library", "directory of libibverbs.so.1 (default: where make verbs or make install has put it)")
}

func newVerbsInstall() *cobra.Command {
	var library string
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Have all programs load this project's libibverbs",
		Long: `Install writes ` + loaderConfig + ` with the directory of the library,
and runs ldconfig. Programs that start later load the library. It changes nothing else:
libibverbs of the distribution stays where it is, and "verbs uninstall" brings it back.
If programs would not load the library, the configuration becomes what it was before.

A machine with RDMA devices is refused, since its programs would lose them; so is a
library that users other than root can change, or to whose directory they can add files.`,
		Args: cli.Takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return installVerbs(cmd.OutOrStdout(), library) },
	}
	libraryFlag(cmd, &library)
	return cmd
}

func installVerbs(w io.Writer, library string) error {
	library, err := findLibrary(library)
	if err != nil {
		return err
	}
	if real := realDevices(); len(real) > 0 {
		return fmt.Errorf("this machine has RDMA devices (%s), which its programs would lose: use `softroce-xdp run -- COMMAND` for single programs",
			strings.Join(real, ", "))
	}
	if err := checkOwner(library); err != nil {
		return err
	}
	before, err := readConfig(loaderConfig)
	if err != nil {
		return err
	}
	if before != "" && !strings.HasPrefix(before, configHead) {
		return fmt.Errorf("%s was not made by this program: remove it first", loaderConfig)
	}
	if _, err := ldconfig("-p"); err != nil { // without it, nothing is changed
		return err
	}
	if err := files.WriteStateMode(loaderConfig, []byte(configHead+library+"\n"), 0o644); err != nil {
		return err
	}
	if err := checkLoaded(library); err != nil {
		return errors.Join(err, restoreConfig(before))
	}
	fmt.Fprintf(w, "programs load %s\n", filepath.Join(library, verbsLibrary))
	return nil
}

// restoreConfig gives loaderConfig the text that it had before an install; "" if there was no such file.
func restoreConfig(before string) error {
	if before == "" {
		return uninstallVerbs(io.Discard)
	}
	if err := files.WriteStateMode(loaderConfig, []byte(before), 0o644); err != nil {
		return err
	}
	_, err := ldconfig()
	return err
}

// checkLoaded makes the loader's cache again, and tests that programs get the library of a directory from it.
func checkLoaded(library string) error {
	if _, err := ldconfig(); err != nil {
		return err
	}
	path, err := cached()
	if err == nil && filepath.Dir(path) != library {
		err = fmt.Errorf("programs would load %q and not the library in %s: `ldconfig -v` shows why", path, library)
	}
	return err
}

func newVerbsUninstall() *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Undo install",
		Long: `Uninstall removes ` + loaderConfig + ` and runs ldconfig.
Programs that start later load libibverbs of the distribution, if there is one.`,
		Args: cli.Takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return uninstallVerbs(cmd.OutOrStdout()) },
	}
}

func uninstallVerbs(w io.Writer) error {
	text, err := readConfig(loaderConfig)
	switch {
	case err != nil:
		return err
	case text == "":
		fmt.Fprintln(w, "not installed: nothing to remove")
		return nil
	case !strings.HasPrefix(text, configHead):
		return fmt.Errorf("%s was not made by this program: it stays", loaderConfig)
	}
	if err := os.Remove(loaderConfig); err != nil {
		return err
	}
	if _, err := ldconfig(); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s is removed\n", loaderConfig)
	return nil
}

func newVerbsStatus(a *host.App) *cobra.Command {
	var library string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which libibverbs programs load and why, and the devices that they get",
		Long: `Status shows the library of this project, whether it is installed for all programs, which
libibverbs a program of this environment loads (but for one with a path of its own,
RPATH), and whether this user may open the devices that agents serve.`,
		Args: cli.Takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return verbsStatus(cmd.Context(), cmd.OutOrStdout(), a.RunDir, library)
		},
	}
	libraryFlag(cmd, &library)
	return cmd
}

func verbsStatus(ctx context.Context, w io.Writer, runDir, library string) error {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-10s "+format+"\n", append([]any{name}, args...)...)
	}
	library, err := findLibrary(library)
	if err != nil {
		row("library", "none: %v", err)
	} else {
		row("library", "%s", filepath.Join(library, verbsLibrary))
	}
	text, err := readConfig(loaderConfig)
	switch {
	case err != nil:
		return err
	case text == "":
		row("installed", "no (there is no %s)", loaderConfig)
	default:
		row("installed", "%s in %s", strings.TrimSpace(strings.TrimPrefix(text, configHead)), loaderConfig)
	}
	path, why := loaded(os.Getenv("LD_LIBRARY_PATH"))
	dir, _ := filepath.EvalSymlinks(filepath.Dir(path))
	switch {
	case path == "":
		row("programs", "load no libibverbs: %s", why)
	case err == nil && dir == library:
		row("programs", "load this library: %s", why)
	default:
		row("programs", "load %s, another library: %s", path, why)
	}
	names := proto.Served(runDir)
	for _, name := range names {
		d, err := readDevice(ctx, runDir, name)
		if err != nil {
			row("device", "%v", err)
			continue
		}
		row("device", "%s of %s, %d GIDs", d.name(), name, len(d.port.GIDs))
	}
	if len(names) == 0 {
		row("device", "none: `softroce-xdp attach --nic IF` serves one")
	}
	for _, path := range realDevices() {
		row("hardware", "%s", path)
	}
	return nil
}
