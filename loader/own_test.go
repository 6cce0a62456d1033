// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
)

// Addresses keep their numbers while others come and go; the first of each family need no lookup.
func TestOwnNumbers(t *testing.T) {
	x := &OwnAddresses{words: &bpf.OwnWords{}}
	set := func(all ...string) map[string]uint16 {
		t.Helper()
		var addrs []netip.Addr
		for _, a := range all {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		if err := x.Set(addrs); err != nil {
			t.Fatal(err)
		}
		numbers := map[string]uint16{}
		for a, n := range x.numbers {
			numbers[a.String()] = n
			if got, ok := x.ByNumber(n); !ok || got != a {
				t.Errorf("number %d is %s, want %s", n, got, a)
			}
			if got, ok := x.ByWord(bpf.OwnWord(a)); !ok || got != a || !x.Has(a) {
				t.Errorf("word of %s is %s", a, got)
			}
		}
		if len(numbers) != len(all) {
			t.Errorf("%d numbers of %d addresses", len(numbers), len(all))
		}
		return numbers
	}
	n := set("10.0.0.1", "10.0.0.2", "fd00::1", "10.0.0.3", "fd00::2")
	if n["10.0.0.1"] != bpf.OwnFirst4 || n["fd00::1"] != bpf.OwnFirst6 || x.words.Known != 1 ||
		x.words.First4 != uint32(bpf.OwnWord(netip.MustParseAddr("10.0.0.1"))) || x.words.First6 != bpf.OwnHalves(netip.MustParseAddr("fd00::1")) {
		t.Errorf("%v, %+v", n, x.words)
	}
	third := n["10.0.0.3"]
	if n = set("10.0.0.1", "10.0.0.9", "10.0.0.3"); n["10.0.0.3"] != third || x.words.First6 != [2]uint64{} {
		t.Errorf("%v, %+v", n, x.words)
	}
	if n = set("10.0.0.9"); n["10.0.0.9"] != bpf.OwnFirst4 {
		t.Errorf("%v", n)
	}
	if n = set("fe80::1%eth0"); n["fe80::1"] != bpf.OwnFirst6 || x.words.First4 != 0 {
		t.Errorf("%v, %+v", n, x.words)
	}
	set()
	if _, ok := x.ByNumber(bpf.OwnUnknown); ok {
		t.Error("an unknown address was found")
	}
}
