// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"testing"
)

// The transport is that of the engine: no file of the wire has code of its own that numbers packets, counts credits, makes
// nonces, or asks a queue pair for its packets and timers. The exceptions are named.
func TestNoTransportOfItsOwn(t *testing.T) {
	for _, rule := range []struct {
		names  *regexp.Regexp
		except map[string]string
	}{
		{regexp.MustCompile(`(?i)psn|credit|nonce`), map[string]string{
			"hostile.go": "hostile packets have any PSN",
			"connect.go": "attributes of a connection: the first PSNs, the PSN expected next",
			"ooo_app.go": "the first PSNs of an ooo.Config",
			"trace.go":   "a line of the trace has the PSN of the packet",
		}},
		{regexp.MustCompile(`^(Next(Ack|Data|On|DataOn)|Receive(On|Exact)|Deliver|Expire|Fill|FillBy|Sealer|Opener)$`), map[string]string{
			"ooo_node.go":  "package ooo is tested with limits and timers that the engine does not choose",
			"seal_test.go": "counters of seal.Opener",
		}},
	} {
		used := map[string]bool{}
		files, err := filepath.Glob("*.go")
		if err != nil || len(files) < 20 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && rule.names.MatchString(id.Name) {
					if used[file] = true; rule.except[file] == "" {
						t.Errorf("%s has the name %s", file, id.Name)
					}
				}
				return true
			})
		}
		for file, why := range rule.except {
			if !used[file] {
				t.Errorf("%s needs no exception (%s)", file, why)
			}
		}
	}
}
