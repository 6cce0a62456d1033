// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/files"
)

// docs/study/simulator.md names every key, and every figure.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile("../../../docs/study/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, typ := range []reflect.Type{
		reflect.TypeFor[Scenario](), reflect.TypeFor[Topology](), reflect.TypeFor[Links](), reflect.TypeFor[Switch](), reflect.TypeFor[Transport](),
		reflect.TypeFor[Clocks](), reflect.TypeFor[Step](), reflect.TypeFor[Traffic](), reflect.TypeFor[Flows](), reflect.TypeFor[OnOff](),
		reflect.TypeFor[Workload](), reflect.TypeFor[Incast](), reflect.TypeFor[Event](), reflect.TypeFor[Measure](),
	} {
		for _, key := range files.YAMLKeys(typ) {
			if !strings.Contains(text, "`"+key+"`") && !strings.Contains(text, ": "+key+"`") && !strings.Contains(text, key+":") {
				t.Errorf("docs/study/simulator.md lacks the key %s of %s", key, typ.Name())
			}
		}
	}
	for _, m := range Metrics {
		if !strings.Contains(text, "`"+m.Name+"`") {
			t.Errorf("docs/study/simulator.md lacks the figure %s", m.Name)
		}
	}
}
