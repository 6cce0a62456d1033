// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// processEnv tells a program that Process has started what it is.
const processEnv = "SOFTROCE_POOL_TRAINER"

// Main is the first call of main in a program whose planner trains by Process, and of TestMain in its tests. It
// returns at once, unless Process has started the program: then it trains and exits.
func Main() {
	if os.Getenv(processEnv) == "" {
		return
	}
	if err := serveTraining(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pool:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Process is a Trainer in a process of its own: this program again, which calls Main. It runs on one CPU, when
// no thread of normal priority wants it (SCHED_IDLE of sched(7)). A goroutine of the server at that priority
// would delay each garbage collection, and with it the periods.
func Process(ctx context.Context, t Task) (Result, error) {
	if os.Getenv(processEnv) != "" { // it would start itself without end
		return Result{}, errors.New("planner: this process was started to train: call planner.Main first in main")
	}
	in, err := json.Marshal(t)
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// /proc/self/exe is this program also after its file was replaced.
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = os.Args[:1]
	cmd.Env = append(os.Environ(), processEnv+"=1", "GOMAXPROCS=1")
	var complaint strings.Builder
	cmd.Stderr = &complaint
	// The process ends when its input does: the pipe stays open until it has answered.
	feed, err := cmd.StdinPipe()
	if err != nil {
		return Result{}, err
	}
	answer, err := cmd.StdoutPipe()
	if err != nil {
		return Result{}, err
	}
	if err := cmd.Start(); err != nil {
		return Result{}, err
	}
	go func() { _, _ = feed.Write(in) }() // it fails with the process
	var r Result
	err = json.NewDecoder(answer).Decode(&r)
	if end := cmd.Wait(); end != nil {
		return Result{}, fmt.Errorf("%w: %s", end, strings.TrimSpace(complaint.String()))
	}
	return r, err
}

// serveTraining trains with the task of its input, and writes the result. It exits when the input ends before:
// the server is gone.
func serveTraining(in io.Reader, out io.Writer) error {
	if err := lowestPriority(); err != nil {
		return err
	}
	var t Task
	if err := json.NewDecoder(in).Decode(&t); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(1)
	}()
	r, err := Teach(t)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// lowestPriority has all threads of this process run when nobody else wants the CPU. New threads inherit it.
func lowestPriority() error {
	list, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, x := range list {
		tid, err := strconv.Atoi(x.Name())
		if err != nil {
			continue
		}
		err = unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
		if err != nil && err != unix.ESRCH {
			return fmt.Errorf("lowest priority: %w", err)
		}
	}
	return nil
}
