// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"
	"testing"
)

func TestParseCmdline(t *testing.T) {
	got := parseCmdline("console=ttyS0 rxepeer.host=b rxepeer.rxe=1 rxepeer.eth1= rxepeer.eth0=10.0.0.1/24,fd00::1/64 rxepeer.eth3=lost\n")
	want := params{host: "b", rxe: true, nics: []nic{
		{name: "eth0", addrs: []string{"10.0.0.1/24", "fd00::1/64"}},
		{name: "eth1"},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if got := parseCmdline("quiet"); !reflect.DeepEqual(got, params{}) {
		t.Errorf("nothing for us: %+v", got)
	}
}
