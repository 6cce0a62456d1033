// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"errors"
	"fmt"
	"testing"
)

func TestStatusOf(t *testing.T) {
	broken := errors.New("no network")
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{Failure(nil), 0},
		{Failure(errMissed), 1},
		{Failure(errors.Join(errMissed, nil)), 1},
		{errors.New("unknown flag"), 1},
		{Failure(broken), 2},
		{Failure(errors.Join(errMissed, broken)), 2},
		{Failure(fmt.Errorf("client: %w", errMissed)), 1},
		{fmt.Errorf("client: %w", Failure(broken)), 2},
	} {
		if got := statusOf(c.err); got != c.want {
			t.Errorf("%v: status %d, want %d", c.err, got, c.want)
		}
	}
}
