// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"testing"
)

func TestOf(t *testing.T) {
	broken := errors.New("no network")
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{Failure(nil), 0},
		{Verdict(true, nil), 0},
		{Verdict(false, nil), 1},
		{errors.New("unknown flag"), 1},
		{Failure(broken), 2},
		{Verdict(true, broken), 2},
		{fmt.Errorf("client: %w", Verdict(false, broken)), 2},
	} {
		if got := of(c.err); got != c.want {
			t.Errorf("%v: status %d, want %d", c.err, got, c.want)
		}
	}
}
