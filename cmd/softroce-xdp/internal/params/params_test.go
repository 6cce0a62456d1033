// SPDX-License-Identifier: Apache-2.0

package params

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// Every parameter of the data plane's header has a name for people, and no name
// is without one.
func TestAllMatchesTheHeader(t *testing.T) {
	header, err := os.ReadFile("../../../../bpf/lib/policy.h")
	if err != nil {
		t.Fatal(err)
	}
	_, body, ok := strings.Cut(string(header), "struct policy_params {")
	if !ok {
		t.Fatal("no struct policy_params in policy.h")
	}
	body, _, _ = strings.Cut(body, "\n};")
	want := map[string]bool{}
	for _, m := range regexp.MustCompile(`__u\d+ (\w+);`).FindAllStringSubmatch(body, -1) {
		want[m[1]] = true
	}
	got := map[string]bool{}
	for _, p := range All {
		got[p.Register] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policy.h and All differ (-header +All):\n%s", diff)
	}
}

// A value that is shown, set again, is the same value: the defaults survive.
func TestShownIsSettable(t *testing.T) {
	want := fourcase.DefaultParams(25e9)
	var got fourcase.Params
	for _, p := range All {
		if err := p.Set(&got, p.Get(&want)); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-shown +set):\n%s", diff)
	}
	if err := Validate(&got); err != nil {
		t.Error(err)
	}
}

func TestBadValues(t *testing.T) {
	for name, bad := range map[string]string{
		"mode": "wild", "min-rate": "fast", "target": "500", "beta": "150%", "raise-after": "-1",
	} {
		p, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		v := fourcase.DefaultParams(1e9)
		before := v
		if err := p.Set(&v, bad); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s=%s: %v; want an error that names the parameter", name, bad, err)
		}
		if v != before {
			t.Errorf("%s=%s changed something", name, bad)
		}
	}
	if _, err := Named("speed"); err == nil || !strings.Contains(err.Error(), "choose mode, min-rate") {
		t.Errorf("Named(speed) = %v; want the list of names", err)
	}
}

func TestValidateSpeaksOfParameters(t *testing.T) {
	v := fourcase.DefaultParams(1e9)
	v.MinRateBps = 2e9
	if err := Validate(&v); err == nil || !strings.Contains(err.Error(), "min-rate") || strings.Contains(err.Error(), "min_rate_bps") {
		t.Errorf("Validate = %v; want min-rate by its name", err)
	}
}
