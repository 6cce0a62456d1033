// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/softroce/softroce-xdp/loader/device/limits"
)

// The smallest pids.max counts, of the own control group and of those above it, of version 1 and 2.
func TestTaskLimit(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"system.slice/pids.max":               "700\n",
		"system.slice/agent.service/pids.max": "max\n",
		"other.slice/pids.max":                "3\n",
		"pids/a/pids.max":                     "500\n",
		"pids/a/b/pids.max":                   "600\n",
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]uint64{
		"0::/system.slice/agent.service\n": 700,
		"0::/system.slice\n":               700,
		"0::/\n":                           math.MaxUint64,
		"":                                 math.MaxUint64,
		"8:pids:/a/b\n4:memory:/other.slice\n0::/\n":       500,
		"8:pids:/a\n0::/system.slice/agent.service/none\n": 500,
	} {
		if got := taskLimit(root, []byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// Each share leaves a reserve of what the kernel allows this process.
func TestKernelShares(t *testing.T) {
	all := kernelShares()
	if most := readNumber("/proc/sys/vm/max_map_count", 0); most > 0 && (all[limits.Mappings].Max > most/4*3 || all[limits.Mappings].Max < most/2) {
		t.Errorf("%d mappings of %d", all[limits.Mappings].Max, most)
	}
	for _, k := range []limits.Kind{limits.Mappings, limits.Descriptors, limits.Processes} {
		if all[k].Max == 0 || all[k].Remedy == "" {
			t.Errorf("%s: %+v", k, all[k])
		}
	}
}

// They hold without any setting, whatever a process and a user may have.
func TestKernelSharesHold(t *testing.T) {
	for _, k := range []limits.Kind{limits.Mappings, limits.Descriptors} {
		l := limits.Defaults()
		l.Process[k], l.User[k] = math.MaxUint64, math.MaxUint64
		s, err := New(Config{Limits: &l})
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.accounts.Open(0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		most := kernelShares()[k].Max
		var refused *limits.Error
		if err := p.Acquire(limits.Use{Kind: k, N: most + 1}); !errors.As(err, &refused) || refused.Scope != limits.Together {
			t.Errorf("%d %s: %v", most+1, k, err)
		}
		if err := p.Acquire(limits.Use{Kind: k, N: most}); err != nil {
			t.Error(err)
		}
	}
}
