// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"testing"
)

// sourceImporter has packages that were checked before.
type sourceImporter map[string]*types.Package

func (s sourceImporter) Import(path string) (*types.Package, error) {
	if p := s[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no package %s", path)
}

// hiddenSource is a package that is no API.
const hiddenSource = `package hidden
type T struct{ F U }
type U int
type V int
func (T) M() V { return 0 }
type I interface{ N() }
type Base struct{}
func (Base) Promoted() V { return 0 }`

// Which declarations of an API package mention hidden types.
func TestHiddenTypes(t *testing.T) {
	for source, want := range map[string][]string{
		`func F(h.U) {}`: {"api.F mentions hidden.U"},
		`func F() []map[string]*h.U { return nil }`: {"api.F mentions hidden.U"},
		`func f(h.U) {}`:                 nil,
		`var V h.U`:                      {"api.V mentions hidden.U"},
		`const C = h.U(1)`:               {"api.C mentions hidden.U"},
		`type S struct { A h.U; b h.V }`: {"api.S mentions hidden.U"},
		`type s struct { A h.U }; func F() s { return s{} }`:       {"api.s mentions hidden.U"},
		`type S struct{}; func (S) M(h.U) {}; func (S) m(h.V) {}`:  {"api.S.M mentions hidden.U"},
		`type S struct { b }; type b struct{}; func (b) M(h.U) {}`: {"api.S.M mentions hidden.U"},
		`type S struct { base }; type base = h.Base`:               {"api.S.Promoted mentions hidden.V"},
		`type S struct { *b }; type b struct { *b; F h.U }`:        {"api.S mentions hidden.U"},
		`type X interface { h.I }`:                                 {"api.X mentions hidden.I"},
		`func F[P h.I](P) {}`:                                      {"api.F mentions hidden.I"},
		`func F(func(h.U)) {}`:                                     {"api.F mentions hidden.U"},
		`type A = h.I; func F(h.I) {}`:                             nil,
		`type A = h.T; type B = h.U; type C = h.V`:                 nil,
		`type A = h.T`:   {"hidden.T mentions hidden.U", "hidden.T.M mentions hidden.V"},
		`type A = []h.U`: {"api.A mentions hidden.U"},
		`type A struct{ X *A }; func F(A) (B, error) { return 0, nil }; type B int`: nil,
	} {
		checked := sourceImporter{}
		check(t, checked, "hidden", hiddenSource)
		api := check(t, checked, "api", "package api\nimport h \"hidden\"\nvar _ h.U\n"+source)
		got := hiddenTypes([]*types.Package{api}, func(string) bool { return true }, func(path string) bool { return path == "api" })
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

// check adds a package of one file to an importer.
func check(t *testing.T, imports sourceImporter, path, source string) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path+".go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	config := types.Config{Importer: imports}
	imports[path], err = config.Check(path, fset, []*ast.File{f}, nil)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return imports[path]
}
