// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// event is a line of go test -json.
func event(action, test, output string) string {
	return fmt.Sprintf("{\"Action\":%q,\"Package\":\"p\",\"Test\":%q,\"Output\":%q}\n", action, test, output)
}

// TestOutcome checks what counts as a failure of a test, and what is an error of the table.
func TestOutcome(t *testing.T) {
	fails := event("run", "TestA", "") + event("output", "TestA", "--- FAIL: TestA (0.00s)\n") + event("fail", "TestA", "")
	for _, c := range []struct {
		name, output string
		failed       []string
		err          string // part of it, "": none
	}{
		{"a failure", fails, []string{"TestA"}, ""},
		{"a failure of a part", event("output", "TestA/x", "--- FAIL: TestA/x (0.00s)\n") + fails, []string{"TestA"}, ""},
		{"a source that does not compile", "# p\nx.go:1: undefined: y\n", nil, "no test has failed"},
		{"a panic of another goroutine", event("run", "TestA", "") + event("output", "TestA", "panic: index out of range\n") + event("fail", "TestA", ""),
			nil, "no test has failed"},
		{"a test that hangs", fails + event("output", "TestB", "panic: test timed out after 2m0s\n") + event("fail", "TestB", ""),
			[]string{"TestA"}, "no deadline of its own"},
		{"a product that does not compile", event("output", "TestA", "x.go:1: build the product: exit status 1\n") + fails, []string{"TestA"}, "build the product"},
		{"a program that the kernel refuses", event("output", "TestA", "load program: permission denied\n") + fails, []string{"TestA"}, "the kernel refuses"},
	} {
		var o outcome
		o.read([]byte(c.output))
		if !slices.Equal(o.failed, c.failed) {
			t.Errorf("%s: %v have failed, want %v", c.name, o.failed, c.failed)
		}
		err := o.verdict(errors.New("exit status 1"), time.Minute)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.err)
		}
	}
	var o outcome
	o.read([]byte(event("output", "TestA/x", "    a_test.go:7: 1, want 2\n") + event("output", "TestA", "    b_test.go:8: later\n") + fails))
	if o.reason["TestA"] != "a_test.go:7: 1, want 2" {
		t.Errorf("the reason of TestA is %q", o.reason["TestA"])
	}
	o = outcome{}
	o.read([]byte(event("pass", "TestA", "") + event("pass", "TestA/x", "") + event("skip", "TestB", "")))
	if err := o.allPassed([]string{"TestA"}); err != nil || len(o.passed) != 1 || o.verdict(nil, 0) != nil {
		t.Errorf("%v have passed: %v", o.passed, err)
	}
	if o.allPassed([]string{"TestB"}) == nil || o.allPassed([]string{"TestC"}) == nil {
		t.Error("a test that was skipped, or is missing, counts as passed")
	}
}
