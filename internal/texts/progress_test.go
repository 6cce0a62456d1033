// SPDX-License-Identifier: Apache-2.0

package texts

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// shown is what is written about work of that length.
func shown(t *testing.T, terminal bool, d time.Duration) (out string) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		stop := show(&b, terminal, func() string { return "half" })
		time.Sleep(d)
		stop()
		out = b.String()
	})
	return out
}

func TestShow(t *testing.T) {
	for _, c := range []struct {
		terminal bool
		lasts    time.Duration
		want     string
	}{
		{false, 4 * time.Second, ""},
		{false, 6 * time.Second, "   5.0s: half\n"},
		{false, 26 * time.Second, "   5.0s: half\n  15.0s: half\n  25.0s: half\n"},
		{true, 500 * time.Millisecond, clearLine + "   0.2s: half" + clearLine + "   0.4s: half" + clearLine},
	} {
		if got := shown(t, c.terminal, c.lasts); got != c.want {
			t.Errorf("terminal %v, %v: %q, want %q", c.terminal, c.lasts, got, c.want)
		}
	}
}
