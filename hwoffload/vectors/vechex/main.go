// SPDX-License-Identifier: Apache-2.0

// Command vechex reads a vector file and prints it as words of 64 bits for $readmemh.
package main

import (
	"fmt"
	"os"

	"github.com/softroce/softroce-xdp/hwoffload/vectors"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: vechex FILE.vec > FILE.hex")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "vechex:", err)
		os.Exit(1)
	}
}

func run(name string) error {
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
