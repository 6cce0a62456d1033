// SPDX-License-Identifier: Apache-2.0

// Package testkit has what the tests of many packages repeat: the check of an error, one limit for every wait,
// and waiting for a condition or a message. It imports only the Go library, so that each package can use it in
// its tests. Only tests import it.
package testkit

import (
	"context"
	"testing"
	"time"
)

// Patience bounds every wait for what must happen: it only ends tests that have failed. What a test waits for comes
// within seconds on an idle machine; a busy machine makes it later, and the verdict is the same.
const Patience = 5 * time.Minute

// Must ends the test if there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must1 takes the results of a function that can fail. What it returns ends the test if there is an error, and
// returns the value otherwise: d := testkit.Must1(device.New(c))(t).
func Must1[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Must(t, err)
		return value
	}
}

// Context returns a context that ends after Patience, or when the test has ended. What the test registers with Cleanup
// after this call runs before the end of the context, and what it has registered before this call runs after it.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}
