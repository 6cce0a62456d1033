// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// What commands print, and their errors, have no control characters but new lines and tabs, wherever the text comes
// from. Bytes and what this program draws on a terminal are written as they are.
func TestControlCharacters(t *testing.T) {
	const hostile, safe = "a\tb\x1b[2J\n", "a\tb\\u001b[2J\n"
	var out, errs bytes.Buffer
	if code := run([]string{"--config", "/nowhere/\x1b[2J", "status"}, &out, &errs); code == exitOK {
		t.Errorf("exit code %d", code)
	}
	if s := errs.String(); strings.Contains(s, "\x1b") || !strings.Contains(s, `/nowhere/\u001b[2J`) {
		t.Errorf("%q", s)
	}

	o := &checkedOutput{Writer: &out}
	out.Reset()
	fmt.Fprint(o, hostile)
	if out.String() != safe {
		t.Errorf("%q, want %q", &out, safe)
	}
	out.Reset()
	fmt.Fprint(rawOf(o), hostile)
	if out.String() != hostile {
		t.Errorf("%q, want %q", &out, hostile)
	}

	out.Reset()
	cmd := &cobra.Command{}
	cmd.SetOut(o)
	cmd.SetContext(t.Context())
	show := output{}
	if err := show.show(cmd, func() (any, func(io.Writer), error) {
		return nil, func(w io.Writer) { fmt.Fprint(w, hostile) }, nil
	}); err != nil || out.String() != safe {
		t.Errorf("%q, %v; want %q", &out, err, safe)
	}
}
