// SPDX-License-Identifier: Apache-2.0

package spread

// share is what a server has for this node.
type share struct {
	stored uint64 // bytes of this node that are there
	leased uint64 // bytes that this node leases there
	free   uint64 // bytes that nobody leases there
}

// split divides a demand in bytes over servers, in proportion to what this node can have there: what it leases
// and what is free. No server is asked for less than is stored there. With a mirror, demand counts both
// copies, and no server is asked for more than half of it, since it has one copy of a page at most.
// A server that is full is asked for a little as well: it learns what this node needs.
func split(demand uint64, list []share, mirror bool) []uint64 {
	out := make([]uint64, len(list))
	most := demand
	if mirror && len(list) > 1 {
		most = (demand + 1) / 2
	}
	open := make([]bool, len(list))
	for i := range open {
		open[i] = true
	}
	for left := demand; ; {
		sum := 0.0
		for i, s := range list {
			if open[i] {
				sum += weight(s)
			}
		}
		if sum == 0 {
			break
		}
		full := false
		for i, s := range list {
			if open[i] && weight(s)/sum*float64(left) > float64(most) {
				out[i], open[i], full = most, false, true
				left -= min(left, most)
				break // the shares of the others have changed
			}
		}
		if full {
			continue
		}
		for i, s := range list {
			if open[i] {
				out[i] = uint64(weight(s)/sum*float64(left) + 0.5)
			}
		}
		break
	}
	for i, s := range list {
		out[i] = max(out[i], s.stored)
	}
	return out
}

func weight(s share) float64 { return float64(s.leased) + float64(s.free) + 1 }
