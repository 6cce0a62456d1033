// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"reflect"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// What the data plane's header calls the same has the same place.
func TestPriorityLayout(t *testing.T) {
	var c bpf.Config
	for _, x := range []struct{ ours, header any }{{priority.Params{}, c.Priority}, {priority.State{}, c.PriorityNow}} {
		ours, header := reflect.TypeOf(x.ours), reflect.TypeOf(x.header)
		if ours.Size() != header.Size() {
			t.Errorf("%v has %d bytes, %v %d", ours, ours.Size(), header, header.Size())
		}
		fields := 0
		for i := range header.NumField() {
			want := header.Field(i)
			if want.Name == "_" {
				continue
			}
			got := ours.Field(fields)
			fields++
			if !strings.EqualFold(got.Name, want.Name) || got.Offset != want.Offset || got.Type.Size() != want.Type.Size() {
				t.Errorf("%v: %s at %d, the header has %s at %d", ours, got.Name, got.Offset, want.Name, want.Offset)
			}
		}
		if fields != ours.NumField() {
			t.Errorf("%v has %d fields, the header %d", ours, ours.NumField(), fields)
		}
	}
}
