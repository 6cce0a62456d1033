// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"context"
	"fmt"
	"time"
)

// Until waits until a condition holds.
func Until(ctx context.Context, what string, holds func() (bool, error)) error {
	const limit, step = 5 * time.Minute, 5 * time.Millisecond
	for end := time.Now().Add(limit); ; time.Sleep(step) {
		ok, err := holds()
		switch {
		case err != nil || ok:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(end):
			return fmt.Errorf("%s: not within %s", what, limit)
		}
	}
}
