// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
)

// sibling is another program of this project, which softroce-xdp NAME executes.
type sibling struct {
	name, short string
	flags       []string // of softroce-xdp that the program has too
}

// siblings are the other programs.
var siblings = []sibling{
	{"pool", "Lend memory to other hosts, or use that of another host (softroce-pool)", []string{"config", "pin-root", "run-dir"}},
	{"card", "Drive a card that does in hardware what this program does on an interface (softroce-card)", []string{"run-dir", "log-level", "log-format"}},
	{"sim", "Simulate congestion control, packet by packet (softroce-sim)", nil},
}

// newSiblings makes the commands that execute the other programs.
func newSiblings() (all []*cobra.Command) {
	for _, s := range siblings {
		all = append(all, &cobra.Command{
			Use:   s.name + " [ARG]...",
			Short: s.short,
			Long:  fmt.Sprintf("%s executes the program %s, which has a help of its own: %[2]s --help.", strings.ToUpper(s.name[:1])+s.name[1:], s.program()),
			// The arguments are those of the other program.
			DisableFlagParsing: true,
			RunE:               s.run,
		})
	}
	return all
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

// check refuses flags of softroce-xdp that the program does not have.
func (s *sibling) check(ours *pflag.FlagSet, args []string) error {
	for ; len(args) > 0 && strings.HasPrefix(args[0], "--"); args = args[1:] {
		name, _, hasValue := strings.Cut(args[0][2:], "=")
		f := ours.Lookup(name)
		if f == nil {
			return nil // it is one of the program
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
	adjacent := filepath.Join(filepath.Dir(self), s.program())
	if path, err := exec.LookPath(adjacent); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(s.program())
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s is not installed, neither in %s nor in PATH: `make install` installs it, or `go install github.com/softroce/softroce-xdp/cmd/%[1]s@latest`",
			s.program(), filepath.Dir(self))
	}
	return path, err
}
