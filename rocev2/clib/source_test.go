// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"unicode"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// source is a Go package as its files declare it. Packages that it imports are not read, so what depends on them has
// no value and no size.
type source struct {
	files []*ast.File
	info  types.Info
	docs  map[string]string // comments of types and of methods, as Header and Cqe.Status
}

// readSource reads the files of a folder that match a pattern, without the tests.
func readSource(t *testing.T, folder, pattern string) *source {
	t.Helper()
	paths := testkit.Must1(filepath.Glob(filepath.Join(folder, pattern)))(t)
	sort.Strings(paths)
	fset := token.NewFileSet()
	s := &source{info: types.Info{Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}, docs: map[string]string{}}
	for _, p := range paths {
		if !strings.HasSuffix(p, "_test.go") {
			s.files = append(s.files, testkit.Must1(parser.ParseFile(fset, p, nil, parser.ParseComments))(t))
		}
	}
	if len(s.files) == 0 {
		t.Fatalf("no Go file matches %s in %s", pattern, folder)
	}
	conf := types.Config{IgnoreFuncBodies: true, Sizes: types.SizesFor("gc", "amd64"), Error: func(error) {}}
	_, _ = conf.Check(folder, fset, s.files, &s.info) // has errors for the imports
	s.each(func(d ast.Decl) {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				s.docs[types.ExprString(d.Recv.List[0].Type)+"."+d.Name.Name] = d.Doc.Text()
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if ts, ok := spec.(*ast.TypeSpec); ok {
					s.docs[ts.Name.Name] = ts.Doc.Text() + d.Doc.Text()
				}
			}
		}
	})
	return s
}

func (s *source) each(do func(ast.Decl)) {
	for _, f := range s.files {
		for _, d := range f.Decls {
			do(d)
		}
	}
}

// group is a block of constants with its comment.
type group struct {
	text   string
	values []value
}

// value is an exported constant. typ is "" for one without a type.
type value struct {
	name, typ, doc, comment string
	value                   constant.Value
}

// constants returns the blocks of exported constants.
func (s *source) constants() (all []group) {
	s.each(func(d ast.Decl) {
		block, ok := d.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			return
		}
		g := group{text: block.Doc.Text()}
		for _, spec := range block.Specs {
			vs := spec.(*ast.ValueSpec)
			for _, name := range vs.Names {
				c := s.info.Defs[name].(*types.Const)
				if !name.IsExported() || c.Val().Kind() == constant.Unknown {
					continue
				}
				typ := ""
				if n, ok := c.Type().(*types.Named); ok {
					typ = n.Obj().Name()
				}
				g.values = append(g.values, value{name.Name, typ, vs.Doc.Text(), vs.Comment.Text(), c.Val()})
			}
		}
		if len(g.values) > 0 {
			all = append(all, g)
		}
	})
	return all
}

// structure is a structure of a message.
type structure struct {
	name     string
	typ      *types.Struct
	comments []string // comment of each field
}

// structures returns the exported structures of fixed size, in the order of the sources.
func (s *source) structures() (all []structure) {
	s.each(func(d ast.Decl) {
		block, ok := d.(*ast.GenDecl)
		if !ok || block.Tok != token.TYPE {
			return
		}
		for _, spec := range block.Specs {
			ts := spec.(*ast.TypeSpec)
			typ, ok := s.info.Defs[ts.Name].Type().Underlying().(*types.Struct)
			if !ok || !ts.Name.IsExported() || !fixed(typ) {
				continue
			}
			x := structure{name: ts.Name.Name, typ: typ}
			for _, f := range ts.Type.(*ast.StructType).Fields.List {
				for range f.Names {
					x.comments = append(x.comments, f.Doc.Text()+f.Comment.Text())
				}
			}
			all = append(all, x)
		}
	})
	return all
}

// fixed reports whether a type has the same size in every message.
func fixed(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Basic:
		return t.Info()&types.IsInteger != 0 && t.Kind() != types.Int && t.Kind() != types.Uint
	case *types.Array:
		return fixed(t.Elem())
	case *types.Struct:
		for f := range t.Fields() {
			if !fixed(f.Type()) {
				return false
			}
		}
		return true
	}
	return false
}

// snake returns a Go name in snake case: MaxRdAtomic is max_rd_atomic, LKey is lkey, CreateCQ is create_cq, GIDs is gids.
func snake(name string) string {
	runes := []rune(name)
	upper := func(i int) bool { return i < len(runes) && unicode.IsUpper(runes[i]) }
	lower := func(i int) bool { return i < len(runes) && unicode.IsLower(runes[i]) }
	plural := func(i int) bool { return runes[i] == 's' && (i+1 == len(runes) || upper(i+1)) }
	words, start := []string{}, 0
	for i := 1; i <= len(runes); i++ {
		begins := upper(i) && (!upper(i-1) || lower(i+1) && !plural(i+1))
		if i == len(runes) || begins && i-start > 1 {
			words = append(words, strings.ToLower(string(runes[start:i])))
			start = i
		}
	}
	return strings.Join(words, "_")
}

// Names of constants and fields in C.
func TestSnake(t *testing.T) {
	for name, want := range map[string]string{
		"MaxRdAtomic": "max_rd_atomic", "LKey": "lkey", "CreateCQ": "create_cq", "CreateCQReply": "create_cq_reply", "GIDs": "gids", "QPs": "qps",
		"CQEntries": "cq_entries", "TClass": "tclass", "MinRNRTimer": "min_rnr_timer", "SQPSN": "sqpsn", "VA": "va", "PMTU256": "pmtu256", "WrId": "wr_id",
		"AllocMWReply": "alloc_mw_reply", "QPLastWQE": "qp_last_wqe", "HelloFDs": "hello_fds", "Status": "status", "InUse": "in_use", "GRHLen": "grh_len",
	} {
		if got := snake(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
