// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal returns a terminal, and the end of who sits at it.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

// late is a screen whose snapshots come by Answers.
type late struct {
	answers chan func() error
	text    string
}

func (s *late) Refresh() error               { return nil }
func (s *late) Answers() <-chan func() error { return s.answers }
func (s *late) Key(k Key) bool               { return k == "q" }
func (s *late) View() string                 { return s.text }
func (s *late) Resize(int, int)              {}

// A snapshot that takes long is shown when it comes, and a key ends the view whether it has come or not.
func TestRunShowsLateAnswer(t *testing.T) {
	user, program := terminal(t)
	s := &late{answers: make(chan func() error), text: "nothing yet\n"}
	done := make(chan error, 1)
	go func() { done <- RunScreen(t.Context(), s, time.Hour, program, program) }()
	shown := bufio.NewReader(user)
	see := func(text string) {
		t.Helper()
		for line := ""; !strings.Contains(line, text); {
			var err error
			if line, err = shown.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	see("nothing yet")
	s.answers <- func() error { s.text = "an answer\n"; return nil }
	see("an answer")
	if _, err := user.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
