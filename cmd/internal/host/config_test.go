// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// flags stands for those of attach and of every command.
func flags() (*pflag.FlagSet, *string, *int, *[]string) {
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	rate := f.String("rate", "auto", "")
	node := f.Int("node", 0, "")
	policy := f.StringArray("policy", nil, "")
	return f, rate, node, policy
}

const good = `
node: 7                   # here a flag of every command
defaults:
  rate: 25G
  policy:
    target: 500us
    mode: robust
interfaces:
  eth1:
  eth0:
    rate: 100G
    policy: {mode: literal}
`

func TestLayers(t *testing.T) {
	f, err := parse("c.yaml", strings.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"eth1", "eth0"}, f.Interfaces()); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		name, rate string
		policy     []string
	}{
		{"eth0", "100G", []string{"target=500us", "mode=robust", "mode=literal"}},
		{"eth1", "25G", []string{"target=500us", "mode=robust"}},
		{"eth2", "25G", []string{"target=500us", "mode=robust"}},
	} {
		set, rate, _, policy := flags()
		if err := f.Interface(c.name, set); err != nil {
			t.Fatal(err)
		}
		if *rate != c.rate || !cmp.Equal(*policy, c.policy) {
			t.Errorf("%s: rate %s, policy %v; want %s, %v", c.name, *rate, *policy, c.rate, c.policy)
		}
	}
}

func TestCommandLineWins(t *testing.T) {
	f, err := parse("c.yaml", strings.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	set, _, node, _ := flags()
	if err := f.Global(set); err != nil || *node != 7 {
		t.Fatalf("node %d, %v; want the file's 7", *node, err)
	}
	set, _, node, _ = flags()
	if err := set.Parse([]string{"--node=9"}); err != nil {
		t.Fatal(err)
	}
	if err := f.Global(set); err != nil || *node != 9 {
		t.Fatalf("node %d, %v; want the command line's 9", *node, err)
	}
}

// Every mistake is an error that names the file and the line.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"defaults:\n  rat: 25G\n", `c.yaml: line 2: no setting "rat" here: choose node, policy, rate`},
		{"node: 1\nnode: 2\n", "c.yaml: line 2: node stands in line 1 already"},
		{"defaults:\n  node: many\n", "c.yaml: line 2: node: strconv"},
		{"defaults:\n  node: [1, 2]\n", "c.yaml: line 2: node needs one value"},
		{"defaults:\n  node:\n", "c.yaml: line 2: node needs one value"},
		{"defaults: 25G\n", "c.yaml: line 1: expected keys with values"},
		{"interfaces: [eth0]\n", "c.yaml: line 1: expected keys with values"},
		{"- node: 1\n", "c.yaml: line 1: expected keys with values"},
		{"speed: 1\n", `c.yaml: line 1: no setting "speed" here`},
		{"node: 'x\n", "c.yaml: line 2: found unexpected end of stream"},
		{"defaults:\n  policy:\n    mode: {a: b}\n", "c.yaml: line 3: mode needs one value"},
	} {
		f, err := parse("c.yaml", strings.NewReader(c.file))
		if err == nil {
			set, _, _, _ := flags()
			if err = f.Global(set); err == nil {
				err = f.Interface("eth0", set)
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v; want %q", c.file, err, c.want)
		}
	}
}

func TestEmptyFile(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "defaults:\ninterfaces:\n"} {
		f, err := parse("c.yaml", strings.NewReader(text))
		if err != nil || len(f.Interfaces()) != 0 {
			t.Errorf("%q: %v, %v", text, f, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add("a: &x {b: *x}\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := parse("c.yaml", strings.NewReader(text))
		if err != nil {
			return
		}
		set, _, _, _ := flags()
		_ = file.Global(set)
		_ = file.Interface("eth0", set)
	})
}
