// SPDX-License-Identifier: Apache-2.0

// Command gotest runs `go test` in stages and sums them up at the end:
//
//	gotest run NAME [go test's arguments]   one stage; its results go to out/gotest/NAME
//	gotest summary                          all stages; status 1 if one failed
//
// Where everything must run (SOFTROCE_REQUIRE_ALL=1) a skipped test is a failure,
// whatever the test itself thinks of it.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/testenv/need"
)

const outDir = "out/gotest"

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
	FailedBuild                   string
}

// stage is what one run came to.
type stage struct {
	Name     string
	Packages int
	Passed   int
	Failed   []string
	Skipped  []string // with the reason
	Seconds  float64
	Took     map[string]float64 // by package, seconds
	Err      string             // of go test itself
}

func main() {
	err := errors.New("usage: gotest run NAME ARGS... | gotest summary")
	switch {
	case len(os.Args) > 2 && os.Args[1] == "run":
		err = run(os.Args[2], os.Args[3:])
	case len(os.Args) == 2 && os.Args[1] == "summary":
		err = summary(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}

// run returns an error only if there is no result: summary judges the others, so
// that a failing stage does not hide what comes after it.
func run(name string, args []string) error {
	start := time.Now()
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	fmt.Printf("=== %s: go test %s\n", name, strings.Join(args, " "))
	if err := cmd.Start(); err != nil {
		return err
	}
	s := stage{Name: name}
	if err := s.read(out, os.Stdout); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil && len(s.Failed) == 0 {
		s.Err = err.Error()
	}
	s.Seconds = time.Since(start).Seconds()
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(outDir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(outDir, name+".json"), b, 0o644)
}

// read follows the events: it prints a line for each package, and the output of
// what failed.
func (s *stage) read(r io.Reader, w io.Writer) error {
	outputs := map[string][]string{} // by package and test
	in := bufio.NewScanner(r)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Fprintln(w, in.Text())
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output", "build-output":
			outputs[key] = append(outputs[key], e.Output)
		case "build-fail":
			fmt.Fprint(w, strings.Join(outputs[key], ""))
		case "pass", "fail", "skip":
			s.finish(e, outputs[key], w)
			delete(outputs, key)
		}
	}
	return in.Err()
}

func (s *stage) finish(e event, output []string, w io.Writer) {
	name := strings.TrimPrefix(e.Package, "github.com/softroce/softroce-xdp/")
	if e.Test == "" {
		if e.Action == "skip" {
			return // no test files
		}
		s.Packages++
		if s.Took == nil {
			s.Took = map[string]float64{}
		}
		s.Took[name] = e.Elapsed
		fmt.Fprintf(w, "%-5s %-50s %6.1fs\n", map[string]string{"pass": "ok", "fail": "FAIL"}[e.Action], name, e.Elapsed)
		if e.Action == "fail" {
			s.Failed = append(s.Failed, name)
			fmt.Fprint(w, strings.Join(output, ""))
		}
		return
	}
	test := name + "." + e.Test
	switch e.Action {
	case "pass":
		s.Passed++
	case "fail":
		s.Failed = append(s.Failed, test)
		fmt.Fprint(w, strings.Join(output, ""))
	case "skip":
		s.Skipped = append(s.Skipped, test+": "+reason(output))
	}
}

// reason finds what t.Skip said among the test's output.
func reason(output []string) string {
	for _, l := range slices.Backward(output) {
		l = strings.TrimSpace(l)
		if _, text, ok := strings.Cut(l, ".go:"); ok {
			if _, text, ok := strings.Cut(text, ": "); ok {
				return text
			}
		}
	}
	return "no reason given"
}

func summary(w io.Writer) error {
	files, err := filepath.Glob(filepath.Join(outDir, "*.json"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, errors.New("no stage has run"))
	}
	bad := false
	passed := 0
	var total float64
	took := map[string]float64{}
	fmt.Fprintln(w, "=== summary")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		var s stage
		if err := json.Unmarshal(b, &s); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		verdict := "ok"
		if len(s.Failed) > 0 || s.Err != "" || s.Packages == 0 || need.All() && len(s.Skipped) > 0 {
			verdict, bad = "FAIL", true
		}
		passed += s.Passed
		total += s.Seconds
		for name, seconds := range s.Took {
			took[s.Name+" "+name] = seconds
		}
		fmt.Fprintf(w, "%-5s %-10s %4d packages, %5d tests passed, %d failed, %d skipped %8.1fs\n",
			verdict, s.Name, s.Packages, s.Passed, len(s.Failed), len(s.Skipped), s.Seconds)
		for _, t := range s.Failed {
			fmt.Fprintf(w, "      failed:  %s\n", t)
		}
		if s.Err != "" {
			fmt.Fprintf(w, "      go test: %s\n", s.Err)
		}
		for _, t := range s.Skipped {
			fmt.Fprintf(w, "      skipped: %s\n", t)
		}
	}
	writeTook(w, took, total)
	if bad {
		fmt.Fprintln(w, "FAIL")
		return errors.New("not everything passed")
	}
	fmt.Fprintf(w, "PASS  %d tests\n", passed)
	return nil
}

// writeTook lists where most of the time went. Packages of one stage may run at once.
func writeTook(w io.Writer, took map[string]float64, total float64) {
	const least, most = 10, 12 // seconds, and lines
	names := slices.SortedFunc(maps.Keys(took), func(a, b string) int { return cmp.Compare(took[b], took[a]) })
	for _, name := range names[:min(most, len(names))] {
		if took[name] >= least {
			fmt.Fprintf(w, "      %7.1fs  %s\n", took[name], name)
		}
	}
	fmt.Fprintf(w, "      %7.1fs  in all\n", total)
}
