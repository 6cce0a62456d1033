// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/spf13/cobra"
)

// What commands print has no control characters but new lines and tabs, wherever the text comes
// from. Bytes and what this program draws on a terminal are written as they are.
func TestControlCharacters(t *testing.T) {
	const hostile, safe = "a\tb\x1b[2J\n", "a\tb\\u001b[2J\n"
	var out bytes.Buffer
	o := &checkedOutput{Writer: &out}
	out.Reset()
	fmt.Fprint(o, hostile)
	if out.String() != safe {
		t.Errorf("%q, want %q", &out, safe)
	}
	out.Reset()
	fmt.Fprint(RawOf(o), hostile)
	if out.String() != hostile {
		t.Errorf("%q, want %q", &out, hostile)
	}

	out.Reset()
	cmd := &cobra.Command{}
	cmd.SetOut(o)
	cmd.SetContext(t.Context())
	show := Output{}
	if err := show.Show(cmd, func() (any, func(io.Writer), error) {
		return nil, func(w io.Writer) { fmt.Fprint(w, hostile) }, nil
	}); err != nil || out.String() != safe {
		t.Errorf("%q, %v; want %q", &out, err, safe)
	}
}
