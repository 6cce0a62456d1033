// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
)

// sibling is another program of this project, which softroce-xdp NAME executes.
type sibling struct {
	name, short string
	flags       []string // flags of softroce-xdp that the program has too
}

// siblings are the other programs.
var siblings = []sibling{
	{"pool", "Lend memory to other hosts, or use that of another host (softroce-pool)", []string{"config", "pin-root", "run-dir"}},
	{"card", "Drive a card that does in hardware what this program does on an interface (softroce-card)", []string{"run-dir", "log-level", "log-format"}},
	{"sim", "Simulate congestion control, packet by packet (softroce-sim)", nil},
}

// newSiblings makes the commands that execute the other programs. inherited are the flags of softroce-xdp.
func newSiblings(inherited *pflag.FlagSet) (all []*cobra.Command) {
	for _, s := range siblings {
		cmd := &cobra.Command{
			Use:   s.name + " [ARG]...",
			Short: s.short,
			Long:  fmt.Sprintf("%s executes the program %s, which has a help of its own: %[2]s --help.", strings.ToUpper(s.name[:1])+s.name[1:], s.program()),
			// The arguments are those of the other program.
			DisableFlagParsing:    true,
			DisableFlagsInUseLine: true,
			ValidArgsFunction:     s.complete,
			RunE:                  s.run,
		}
		hideInherited(cmd, inherited)
		all = append(all, cmd)
	}
	return all
}

// hideInherited leaves flags out of help, man page and completion of a command: a hidden flag of the command has the
// name of each.
func hideInherited(cmd *cobra.Command, inherited *pflag.FlagSet) {
	inherited.VisitAll(func(f *pflag.Flag) {
		hidden := *f
		hidden.Hidden = true
		cmd.Flags().AddFlag(&hidden)
	})
}

// program returns the name of the program.
func (s *sibling) program() string { return "softroce-" + s.name }

// run executes the program in place of this one, so that its exit code is that of the command.
func (s *sibling) run(cmd *cobra.Command, args []string) error {
	if err := s.check(cmd.Root().PersistentFlags(), args); err != nil {
		return err
	}
	path, err := s.find()
	if err != nil {
		return err
	}
	// The flags before the name of the command are the first arguments.
	return fmt.Errorf("%s: %w", path, unix.Exec(path, append([]string{path}, args...), os.Environ()))
}

// complete returns the completions of the program.
func (s *sibling) complete(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if s.check(cmd.Root().PersistentFlags(), args) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	path, err := s.find()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out, err := exec.Command(path, slices.Concat([]string{cobra.ShellCompRequestCmd}, args, []string{toComplete})...).Output()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	// The last line is a colon and the directive.
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	last := len(lines) - 1
	directive, err := strconv.Atoi(strings.TrimPrefix(lines[last], ":"))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return lines[:last], cobra.ShellCompDirective(directive)
}

// check refuses flags of softroce-xdp that the program does not have.
func (s *sibling) check(ours *pflag.FlagSet, args []string) error {
	for ; len(args) > 0 && strings.HasPrefix(args[0], "--"); args = args[1:] {
		name, _, hasValue := strings.Cut(args[0][2:], "=")
		f := ours.Lookup(name)
		if f == nil {
			return nil // a flag of the program
		}
		if !slices.Contains(s.flags, name) {
			return cli.Usagef("%s has no --%s: leave it out", s.program(), name)
		}
		if !hasValue && len(args) > 1 {
			args = args[1:]
		}
	}
	return nil
}

// find returns the path of the program: next to this one, or in PATH.
func (s *sibling) find() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path, err := exec.LookPath(filepath.Join(filepath.Dir(self), s.program()))
	var cause *exec.Error
	switch {
	case err == nil:
		return path, nil
	case !errors.Is(err, fs.ErrNotExist) && errors.As(err, &cause):
		// The cause is not wrapped: root has no more permission to execute the file.
		return "", fmt.Errorf("%s cannot be executed: %v: install it again, or remove it if the one in PATH is meant", cause.Name, cause.Err)
	}
	path, err = exec.LookPath(s.program())
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s is not installed, neither in %s nor in PATH: `make install` installs it, or `go install github.com/softroce/softroce-xdp/cmd/%[1]s@latest`",
			s.program(), filepath.Dir(self))
	}
	return path, err
}
