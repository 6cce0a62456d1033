// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxDependentComments is the largest number of comments of fields that are true only with the name of the field in
// front.
const maxDependentComments = 50

// dependentStart matches the first word of a comment that is true only with the name of its field in front: "of the
// period", "ends the period". Participles are not among the words, as "closed when the loop has ended" is common in Go.
// Words that may be nouns count only with an object behind them: "ends of a connection" is a noun phrase.
var dependentStart = regexp.MustCompile(`^(` + strings.Join(strings.Fields(`
	of in by with without for at from to until till since on off into onto out over under below above behind before after
	between beyond through toward towards against about during within per via except upon outside inside only not never
	always also too so again besides afterwards
	that which who whom whose whether when where while as if because unless how what why and or but than it its they
	he this these those them their
	is has was are were be been does do did have had can could may might must shall should will would cannot see sees
	gets holds returns takes waits keeps divides stands grows sets acknowledges makes goes comes says tells gives means
	belongs lets stays decides closes opens begins becomes contains adds removes`), "|") + `)([\s,.:;()']|$)|` +
	`^(answers|calls|checks|counts|ends|leaves|limits|looks|needs|reads|reports|runs|sends|shows|starts|stops|tries|wakes|writes) ` +
	`(the|a|an|it|its|this|these|one|no|whether|how|what)\b`)

// fieldComment is a comment of a field of a structure.
type fieldComment struct {
	place string // folder, file and line
	text  string // text without slashes
	names []string
}

// dependent reports whether the comment is true only with the name of its field in front. "Rate is the rate" has that
// name in it.
func (c *fieldComment) dependent() bool {
	first, _, _ := strings.Cut(strings.TrimSuffix(c.text, ":"), " ")
	return !slices.Contains(c.names, strings.TrimRight(first, ":")) && dependentStart.MatchString(strings.ToLower(c.text))
}

// The comments of fields are sentences, or noun phrases, that are true without the name of the field in front.
func TestFieldComments(t *testing.T) {
	byFolder, fields, commented := map[string][]string{}, 0, 0
	total := 0
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		comments, n, with, err := fieldComments(path, nil)
		fields, commented = fields+n, commented+with
		for _, c := range comments {
			if c.dependent() {
				total++
				byFolder[filepath.Dir(path)] = append(byFolder[filepath.Dir(path)], c.place+": "+c.text)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d fields have a comment; %d comments need the name in front", commented, fields, total)
	if fields == 0 || commented == 0 {
		t.Error("no field with a comment was found")
	}
	if total <= maxDependentComments {
		return
	}
	for _, folder := range slices.Sorted(maps.Keys(byFolder)) {
		t.Errorf("%s: %d comments of fields make sense only with the name of the field in front (at most %d in all folders):\n%s",
			folder, len(byFolder[folder]), maxDependentComments, strings.Join(byFolder[folder], "\n"))
	}
}

// Which comments of fields the test finds.
func TestFieldCommentsFound(t *testing.T) {
	const source = `package p

type a struct {
	ends  time.Duration // The period.
	size  int           // of a message
	Rate  int           // bit/s; 0: unpaced
	// Within is how soon it is noticed.
	Within int
	// Of a listener.
	queue []int // end of the queue
	bare  int
	sides [2]int // ends of the wire
	end   func() // ends the wire
	at    int // "at" is quoted
	out   int // out-of-order packets
	f     func() // Returns
}

var table = []struct {
	name string // whose name it is
	// Stops: the traffic stops.
	Stops bool
}{}

func f(x int /* of a parameter */) {} // of a function
`
	comments, fields, commented, err := fieldComments("p.go", source)
	if err != nil {
		t.Fatal(err)
	}
	if fields != 13 || commented != 12 {
		t.Errorf("%d fields, %d with a comment, want 13 and 12", fields, commented)
	}
	var got []string
	for _, c := range comments {
		if c.dependent() {
			got = append(got, c.place+": "+c.text)
		}
	}
	want := []string{"p.go:5: of a message", "p.go:9: Of a listener.", "p.go:13: ends the wire", "p.go:16: Returns", "p.go:20: whose name it is"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// fieldComments returns the comments of the fields of all structures of a file, the number of fields, and how many have a
// comment; nothing for a generated file. The source is read from the file if it is nil.
func fieldComments(path string, source any) (comments []fieldComment, fields, commented int, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return nil, 0, 0, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.StructType)
		if !ok {
			return true
		}
		for _, f := range s.Fields.List {
			fields++
			if f.Doc != nil || f.Comment != nil {
				commented++
			}
			for _, group := range []*ast.CommentGroup{f.Doc, f.Comment} {
				if group == nil {
					continue
				}
				at := files.Position(group.Pos())
				c := fieldComment{place: fmt.Sprintf("%s:%d", at.Filename, at.Line), text: strings.Join(strings.Fields(group.Text()), " ")}
				for _, name := range f.Names {
					c.names = append(c.names, name.Name)
				}
				comments = append(comments, c)
			}
		}
		return true
	})
	return comments, fields, commented, nil
}
