// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxMethods is how many methods a type has at most in the packages that had the largest ones.
const maxMethods = 50

// parseProduct calls yield with the files of a package that are no tests.
func parseProduct(t *testing.T, folder string, yield func(name string, f *ast.File)) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files++
		yield(filepath.Base(name), f)
	}
	if files == 0 {
		t.Errorf("no file in %s", folder)
	}
}

// No type of the engine, its programs, the card and the device has more methods than can be surveyed. Those of embedded
// structs of the same package count too.
func TestMethods(t *testing.T) {
	for _, folder := range []string{"rocev2/engine", "rocev2/nic", "hwoffload/card", "loader/device"} {
		count, embedded := map[string]int{}, map[string][]string{}
		parseProduct(t, folder, func(_ string, f *ast.File) {
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Recv != nil {
						count[receiverName(d.Recv.List[0].Type)]++
					}
				case *ast.GenDecl:
					for _, s := range d.Specs {
						noteEmbedded(s, embedded)
					}
				}
			}
		})
		var methods func(name string) int
		methods = func(name string) int {
			n := count[name]
			for _, inner := range embedded[name] {
				n += methods(inner)
			}
			return n
		}
		names := slices.Collect(maps.Keys(count))
		for name := range embedded {
			if count[name] == 0 {
				names = append(names, name)
			}
		}
		for _, name := range names {
			if n := methods(name); n > maxMethods {
				t.Errorf("%s: %s has %d methods, the limit is %d: divide it", folder, name, n, maxMethods)
			}
		}
	}
}

// noteEmbedded adds the types of its package that a declared struct embeds.
func noteEmbedded(s ast.Spec, embedded map[string][]string) {
	declared, ok := s.(*ast.TypeSpec)
	if !ok {
		return
	}
	if fields, ok := declared.Type.(*ast.StructType); ok {
		for _, field := range fields.Fields.List {
			if len(field.Names) == 0 {
				embedded[declared.Name.Name] = append(embedded[declared.Name.Name], receiverName(field.Type))
			}
		}
	}
}

// receiverName returns the name of the type of a receiver.
func receiverName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiverName(x.X)
	case *ast.IndexExpr:
		return receiverName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// transportWord matches names of what the core of the engine has for the card.
var transportWord = regexp.MustCompile(`(?i)psn|credit|nonce`)

// cardMayName are the names with such words that the card needs in addition to those of generated registers.
var cardMayName = map[string]string{
	"PSN": "type of a register", "SQPSN": "attribute of a queue pair", "RQPSN": "attribute of a queue pair",
	"StampCredit": "ingress", "Credit": "ingress", "CreditSeq": "ingress",
	"precredit": "package of the parameters in block precredit", "PreCredit": "its parameters", "UsePreCredit": "block precredit",
	"EndPreCredit": "block precredit",
}

// The card has no transport, pre-credit or encryption of its own: it is the core of the engine, and registers.
func TestCardNamesNoTransport(t *testing.T) {
	registers := map[string]bool{}
	parseProduct(t, "hwoffload/regs", func(name string, f *ast.File) {
		if strings.HasSuffix(name, "_gen.go") {
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					registers[id.Name] = true
				}
				return true
			})
		}
	})
	used := map[string]bool{}
	parseProduct(t, "hwoffload/card", func(name string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok || !transportWord.MatchString(id.Name) {
				return true
			}
			used[id.Name] = true
			if !registers[id.Name] && cardMayName[id.Name] == "" {
				t.Errorf("hwoffload/card/%s names %s: that is a matter of rocev2/engine", name, id.Name)
			}
			return true
		})
	})
	for name := range cardMayName {
		if !used[name] {
			t.Errorf("the card does not name %s any more: it is no exception", name)
		}
	}
}
