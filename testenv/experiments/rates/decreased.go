// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// Decreased reports whether the last decision on a destination has decreased its rate. The counter of
// decreases also grows with a policy that decides and changes no rate; then the rates before and after the
// decision are the same. How deep a decrease is depends on the machine, and that there is one in a bottleneck
// that is full does not.
func Decreased(d *bpf.DestRegs) bool {
	p := &d.Policy
	return fourcase.Action(p.Action).Cuts() && p.RateBps < p.RateBeforeDecreaseBps
}
