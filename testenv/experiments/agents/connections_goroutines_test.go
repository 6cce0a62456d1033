// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// aProgram has as many goroutines that wait as its argument, and as many that have ended.
const aProgram = `package main

import (
	"fmt"
	"os"
	"sync"
)

func main() {
	n := 0
	fmt.Sscan(os.Args[1], &n)
	var started, ended sync.WaitGroup
	end := make(chan struct{})
	for range n {
		started.Add(2)
		go func() { started.Done(); select {} }()
		ended.Go(func() { started.Done(); <-end })
	}
	started.Wait()
	close(end)
	ended.Wait()
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
}
`

// The goroutines of another process are counted, but for those that have ended.
func TestCounter(t *testing.T) {
	dir := t.TempDir()
	source, bin := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(aProgram), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", bin, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c, err := newCounter(bin)
	if err != nil {
		t.Fatal(err)
	}
	var counts []int
	for _, n := range []string{"0", "1000"} {
		cmd := exec.Command(bin, n)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		if _, err := out.Read(make([]byte, 10)); err != nil { // it is ready
			t.Fatal(err)
		}
		got, err := c.count(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		counts = append(counts, got)
	}
	// Goroutines of the runtime may come meanwhile. Some that have ended may still be on their last instructions.
	if more := counts[1] - counts[0]; more < 1000 || more > 1100 || counts[0] < 3 || counts[0] > 30 {
		t.Errorf("%d goroutines, and %d with 1000 more", counts[0], counts[1])
	}
}
