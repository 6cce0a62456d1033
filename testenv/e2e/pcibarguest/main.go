// SPDX-License-Identifier: Apache-2.0

// Command guest accesses a card by its PCI BAR in a virtual machine, with hwoffload.OpenBAR.
// Its first argument is the resource file of the BAR. Each further one is a step:
//
//	r32:ADDR  r64:ADDR          prints what a read returns
//	w32:ADDR:VALUE  w64:...     writes
//	card                        opens the card and prints the number of its blocks
//	again                       prints the error of opening the BAR a second time
//
// Each step prints one line. An error ends the command with status 1.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/softroce/softroce-xdp/hwoffload"
)

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("usage: guest RESOURCE STEP [STEP ...]"))
	}
	d, err := hwoffload.OpenBAR(os.Args[1])
	if err != nil {
		fail(err)
	}
	defer d.Close()
	for _, s := range os.Args[2:] {
		out, err := step(d, os.Args[1], strings.Split(s, ":"))
		if err == nil {
			err = d.Err()
		}
		if err != nil {
			fail(err)
		}
		fmt.Println(out)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// step executes one step and returns what to print.
func step(d hwoffload.Device, path string, words []string) (string, error) {
	switch words[0] {
	case "card":
		c, err := hwoffload.Open(d)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%d blocks", len(c.Blocks)), nil
	case "again":
		second, err := hwoffload.OpenBAR(path)
		if err != nil {
			return err.Error(), nil
		}
		return "opened", second.Close()
	}
	return access(d, words)
}

// access makes one access: its width, its address, and the value of a write.
func access(d hwoffload.Device, words []string) (string, error) {
	var n [2]uint64
	if len(words) > 1+len(n) {
		return "", fmt.Errorf("step %s: it has more than an address and a value", strings.Join(words, ":"))
	}
	for i, w := range words[1:] {
		v, err := strconv.ParseUint(w, 0, 64)
		if err != nil {
			return "", fmt.Errorf("step %s: %v", strings.Join(words, ":"), err)
		}
		n[i] = v
	}
	switch words[0] {
	case "r32":
		return fmt.Sprintf("%#x", d.R32(n[0])), nil
	case "r64":
		return fmt.Sprintf("%#x", d.R64(n[0])), nil
	case "w32":
		d.W32(n[0], uint32(n[1]))
		return "done", nil
	case "w64":
		d.W64(n[0], n[1])
		return "done", nil
	}
	return "", fmt.Errorf("no step %q: choose r32, r64, w32, w64, card or again", words[0])
}
