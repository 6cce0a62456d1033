// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"

	"github.com/softroce/softroce-xdp/hwoffload/vectors"
)

// hexCommand reads a vector file and prints it as words of 64 bits for $readmemh.
func hexCommand(_ context.Context, args []string) error {
	if len(args) != 1 {
		return errUsage{}
	}
	name := args[0]
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := vectors.Read(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.WriteHex(os.Stdout)
}
