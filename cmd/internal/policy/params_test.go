// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// Every parameter of the data plane's header has a name for people, and no name
// is without one.
func TestAllMatchesTheHeader(t *testing.T) {
	header, err := os.ReadFile("../../../bpf/lib/policy.h")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"window_off": true} // of abi.h
	for name, prefix := range map[string]string{"policy_params": "", "priority_params": "priority."} {
		_, body, ok := strings.Cut(string(header), "struct "+name+" {")
		if !ok {
			t.Fatalf("no struct %s in policy.h", name)
		}
		body, _, _ = strings.Cut(body, "\n};")
		for _, m := range regexp.MustCompile(`__u\d+ (\w+);`).FindAllStringSubmatch(body, -1) {
			if m[1] != "reserved" {
				want[prefix+m[1]] = true
			}
		}
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
	want := Policy{Params: fourcase.DefaultParams(25e9), Priority: priority.Params{CapacityBps: 2e9, Mode: priority.ModeOff}, WindowOff: true}
	var got Policy
	for _, p := range All {
		if err := p.Set(&got, p.Get(&want)); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-shown +set):\n%s", diff)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}

func TestBadValues(t *testing.T) {
	for name, bad := range map[string]string{
		"mode": "wild", "min-rate": "fast", "target": "500", "beta": "150%", "raise-after": "-1", "priority": "maybe", "priority-capacity": "most",
	} {
		p, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		v := Policy{Params: fourcase.DefaultParams(1e9)}
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
	v := Policy{Params: fourcase.DefaultParams(1e9)}
	v.MinRateBps = 2e9
	if err := v.Validate(); err == nil || !strings.HasPrefix(err.Error(), "min-rate (2Gbit/s) is above max-rate (1Gbit/s)") {
		t.Errorf("Validate = %v; want min-rate by its name", err)
	}
}
