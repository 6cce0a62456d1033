// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/softroce/softroce-xdp/"

// listedPackage is a package as `go list` prints it.
type listedPackage struct {
	ImportPath string
	Name       string
	Dir        string
	Export     string // file with the export data, of `go list -export`
	GoFiles    []string
	Imports    []string

	TestImports, XTestImports []string
}

// path returns the import path without the module.
func (p *listedPackage) path() string { return strings.TrimPrefix(p.ImportPath, module) }

// goList runs `go list` with arguments.
func goList(arguments ...string) ([]*listedPackage, error) {
	list := exec.Command("go", append([]string{"list", "-json=ImportPath,Name,Dir,Export,GoFiles,Imports,TestImports,XTestImports"}, arguments...)...)
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		return nil, errors.Join(err, errors.New(stderr.String()))
	}
	var packages []*listedPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listedPackage)
		if err := d.Decode(p); err == io.EOF {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// listModule lists all packages of this module, once.
var listModule = sync.OnceValues(func() ([]*listedPackage, error) { return goList(module + "...") })

// listPackages returns all packages of this module.
func listPackages(t *testing.T) []*listedPackage {
	t.Helper()
	packages, err := listModule()
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// covers reports whether an entry of a list stands for a package: "a/b" for itself, "a/..." for a and
// all below it, and "..." for all.
func covers(entry, name string) bool {
	if above, ok := strings.CutSuffix(entry, "..."); ok {
		return strings.HasPrefix(name+"/", above)
	}
	return entry == name
}
