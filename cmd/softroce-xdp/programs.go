// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

// newPrograms makes the commands that are programs of their own.
func newPrograms() []*cobra.Command { return nil }
