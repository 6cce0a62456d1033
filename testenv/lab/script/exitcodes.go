// SPDX-License-Identifier: Apache-2.0

package script

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// ExitCase is a command line, its exit code and its message.
type ExitCase = struct {
	Line string
	Code int
	Says string // text on stderr; for 0 on stdout
}

// Program is a program whose exit codes are tested.
type Program struct {
	Name  string
	Run   func(args []string, stdout, stderr io.Writer) int
	Root  func() *cobra.Command // constructor with the commands help and completion
	Codes []int                 // exit codes that are documented
	Cases []ExitCase            // cases besides those of help, completion, version and man
	Files map[string]string     // content of the files that the cases name, by their paths

	// Places are the flags of the root that name the directories of pins and state.
	Places []string
	// Terminal are the commands that are always wrong without a terminal.
	Terminal []string
	// Closed are command lines whose output nobody reads.
	Closed []string
}

// common are the cases of the commands that all programs have.
func (p *Program) common() (all []ExitCase) {
	for _, c := range []ExitCase{
		{"", 0, "Available Commands:"},
		{"--version", 0, "PROGRAM dev"},
		{"--nosuch", 1, "unknown flag: --nosuch"},
		{"nosuch", 1, `unknown command "nosuch" for "PROGRAM"`},
		{"help", 0, "Available Commands:"},
		{"help nosuch", 1, `unknown command "nosuch" for "PROGRAM"`},
		{"help --nosuch", 1, "unknown flag: --nosuch"},
		{"completion", 0, "Available Commands:"},
		{"completion nosuch", 1, `unknown command "nosuch" for "PROGRAM completion"`},
		{"completion bash", 0, "complete -o default"},
		{"completion bash x", 1, `"x": PROGRAM completion bash takes no arguments`},
		{"completion zsh", 0, "compdef"},
		{"completion zsh x", 1, "takes no arguments"},
		{"completion fish", 0, "complete -c"},
		{"completion fish x", 1, "takes no arguments"},
		{"completion powershell", 0, "Register-ArgumentCompleter"},
		{"completion powershell x", 1, "takes no arguments"},
		{"version", 0, "PROGRAM dev ("},
		{"version x", 1, `"x": PROGRAM version takes no arguments`},
		{"version --json=maybe", 1, `"maybe" is neither true nor false: write --json alone`},
		{"man out", 0, ""},
		{"man", 1, "DIR is missing: PROGRAM man DIR"},
		{"man text", 2, "not a directory"},
	} {
		c.Says = strings.ReplaceAll(c.Says, "PROGRAM", p.Name)
		all = append(all, c)
	}
	return all
}

func (p *Program) cases() []ExitCase { return slices.Concat(p.common(), p.Cases) }

// enter writes the files of the cases into a directory of their own, and goes there.
func (p *Program) enter(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("text", []byte("This is no capture.\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, text := range p.Files {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// args returns the arguments of a line, with places of pins and state that belong to the test.
func (p *Program) args(t *testing.T, line string) (args []string) {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range p.Places {
		args = append(args, "--"+flag, filepath.Join(here, flag))
	}
	return append(args, strings.Fields(line)...)
}

// TestExits tests the exit codes.
func (p *Program) TestExits(t *testing.T) {
	t.Run("codes", p.codes)
	t.Run("every command", p.everyCommand)
	t.Run("output lost", p.outputLost)
	t.Run("output closed", p.outputClosed)
}

func (p *Program) codes(t *testing.T) {
	p.enter(t)
	for _, c := range p.cases() {
		var out, errOut bytes.Buffer
		code := p.Run(p.args(t, c.Line), &out, &errOut)
		said := errOut.String()
		if c.Code == 0 {
			said = out.String()
		}
		if code != c.Code || !strings.Contains(said, c.Says) {
			t.Errorf("%s %s: exits %d, want %d with %q; it says: %.300s%.300s", p.Name, c.Line, code, c.Code, c.Says, errOut.String(), out.String())
		}
		if !slices.Contains(p.Codes, code) {
			t.Errorf("%s %s: exit code %d is not documented", p.Name, c.Line, code)
		}
	}
}

// everyCommand tests that every command has a row for a wrong command line and one for a right one.
func (p *Program) everyCommand(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if c.HasSubCommands() || c.Name() == "help" || c.DisableFlagParsing {
			return
		}
		path := strings.TrimPrefix(c.CommandPath(), p.Name+" ")
		var wrong, right bool
		for _, x := range p.cases() {
			if x.Line == path || strings.HasPrefix(x.Line, path+" ") {
				wrong, right = wrong || x.Code == 1, right || x.Code != 1
			}
		}
		if !wrong || !right && !slices.Contains(p.Terminal, path) {
			t.Errorf("%s: a row with code 1: %v, with another: %v", path, wrong, right)
		}
	}
	walk(p.Root())
}

// full is an output that takes so many writes.
type full struct {
	room int
	err  error
}

func (f *full) Write(b []byte) (int, error) {
	if f.room--; f.room < 0 {
		return 0, f.err
	}
	return len(b), nil
}

// outputLost tests that what could not be written is no success, whichever command has written it.
func (p *Program) outputLost(t *testing.T) {
	p.enter(t)
	noSpace := &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
	for _, c := range p.cases() {
		if c.Code != 0 || c.Says == "" {
			continue
		}
		for room := range 2 {
			var errOut bytes.Buffer
			var count full
			count.room = 1 << 30
			p.Run(p.args(t, c.Line), &count, io.Discard)
			if 1<<30-count.room <= room {
				continue // everything was written by then
			}
			code := p.Run(p.args(t, c.Line), &full{room, noSpace}, &errOut)
			if code != 2 || strings.Count(errOut.String(), "no space left on device") != 1 {
				t.Errorf("%s %s with room for %d writes: exits %d and says %q", p.Name, c.Line, room, code, errOut.String())
			}
		}
	}
}

// outputClosed tests that a pipe that its reader has closed gives an exit code and no message.
func (p *Program) outputClosed(t *testing.T) {
	p.enter(t)
	for _, line := range append([]string{"help"}, p.Closed...) {
		var errOut bytes.Buffer
		code := p.Run(p.args(t, line), &full{0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}}, &errOut)
		if code != 2 || errOut.Len() != 0 {
			t.Errorf("%s %s: exits %d and says %q", p.Name, line, code, errOut.String())
		}
	}
}
