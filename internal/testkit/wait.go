// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"errors"
	"testing"
	"time"
)

// Eventually calls a function until it returns true, or no error. The test ends if that is not so within Patience,
// with what should have happened and the last error. The pauses between calls are a tenth of the time so far, between
// 100 µs and 10 ms.
func Eventually[F func() bool | func() error](t testing.TB, what string, f F) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(min(max(time.Since(start)/10, 100*time.Microsecond), 10*time.Millisecond)) {
		err := result(f)
		if err == nil {
			return
		}
		if time.Since(start) > Patience {
			t.Fatalf("not within %v: %s: %v", Patience, what, err)
		}
	}
}

// result returns nil if a function for Eventually has returned true or no error.
func result(f any) error {
	switch f := f.(type) {
	case func() error:
		return f()
	case func() bool:
		if f() {
			return nil
		}
	}
	return errors.New("it is not so")
}

// Receive returns the next value of a channel. The test ends if there is none within Patience, with what should have
// come. A closed channel has the zero value.
func Receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fatalf("not within %v: %s", Patience, what)
		panic("after Fatalf")
	}
}
