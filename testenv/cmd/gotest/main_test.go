// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const events = `{"Action":"output","Package":"github.com/softroce/softroce-xdp/a","Test":"TestSkip","Output":"    x_test.go:9: needs root\n"}
{"Action":"output","Package":"github.com/softroce/softroce-xdp/a","Test":"TestSkip","Output":"--- SKIP: TestSkip (0.00s)\n"}
{"Action":"skip","Package":"github.com/softroce/softroce-xdp/a","Test":"TestSkip"}
{"Action":"pass","Package":"github.com/softroce/softroce-xdp/a","Test":"TestGood"}
{"Action":"output","Package":"github.com/softroce/softroce-xdp/a","Test":"TestBad","Output":"    x_test.go:12: 1 is not 2\n"}
{"Action":"fail","Package":"github.com/softroce/softroce-xdp/a","Test":"TestBad"}
{"Action":"fail","Package":"github.com/softroce/softroce-xdp/a","Elapsed":1.5}
{"Action":"skip","Package":"github.com/softroce/softroce-xdp/empty"}
not json
`

func TestRead(t *testing.T) {
	var s stage
	var out bytes.Buffer
	if err := s.read(strings.NewReader(events), &out); err != nil {
		t.Fatal(err)
	}
	want := stage{Packages: 1, Passed: 1, Failed: []string{"a.TestBad", "a"}, Skipped: []string{"a.TestSkip: needs root"}, Took: map[string]float64{"a": 1.5}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{"1 is not 2", "FAIL  a ", "not json"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("the output lacks %q:\n%s", line, out.String())
		}
	}
}

func TestSummary(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := summary(&bytes.Buffer{}); err == nil {
		t.Error("a summary of nothing is no error")
	}
}

func TestTook(t *testing.T) {
	var out bytes.Buffer
	writeTook(&out, map[string]float64{"race bpf": 20.5, "network e2e": 300, "race mr": 3}, 321)
	want := "        300.0s  network e2e\n         20.5s  race bpf\n        321.0s  in all\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
