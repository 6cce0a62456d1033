// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A child that cannot be waited for is an error, which ends run: the command is not executed once more.
func TestFollowNoChild(t *testing.T) {
	process, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	c := child{process: process, signals: make(chan os.Signal)}
	if err := c.follow(); !errors.Is(err, unix.ECHILD) {
		t.Errorf("%v", err)
	}
}
