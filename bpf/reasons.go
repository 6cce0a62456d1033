// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	_ "embed"
	"regexp"
	"strconv"
	"sync"
)

//go:embed lib/reasons.h
var reasonsHeader string

// A Reason is one counter of the stats map.
type Reason struct {
	Number uint32
	Name   string // rx_stamped
	Text   string // description of the event, and of the fate of the packet
}

var reasonLine = regexp.MustCompile(`SR_REASON\((\d+), (\w+), "([^"]*)"\)`)

// Reasons lists the counters in the order of lib/reasons.h, which is read from
// the source that the data plane was compiled from: there is no second list.
var Reasons = sync.OnceValue(func() []Reason {
	var all []Reason
	for _, m := range reasonLine.FindAllStringSubmatch(reasonsHeader, -1) {
		n, err := strconv.ParseUint(m[1], 10, 32)
		if err != nil {
			panic("bpf: reasons.h: " + err.Error())
		}
		all = append(all, Reason{uint32(n), m[2], m[3]})
	}
	return all
})

// ReasonNumber returns the index of a counter in the stats map by its name.
func ReasonNumber(name string) (uint32, bool) {
	for _, r := range Reasons() {
		if r.Name == name {
			return r.Number, true
		}
	}
	return 0, false
}
