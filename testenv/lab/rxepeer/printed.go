// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// PerftestFigure reads a column of the line that a program of perftest prints for a message size.
func PerftestFigure(out, size string, column int) (float64, error) {
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > column && f[0] == size {
			return strconv.ParseFloat(f[column], 64)
		}
	}
	return 0, fmt.Errorf("no line of size %s in perftest's words:\n%s", size, out)
}

// wrongData reports whether a program has printed that it received other data than its peer has sent.
func wrongData(printed string) bool {
	return strings.Contains(printed, "invalid data") || strings.Contains(printed, "data mismatch") // pingpong, rping
}

// TimedOut reports whether an example of libibverbs has printed that its peer did not answer, and nothing of wrong data. Its ACK
// timeout of 67 ms cannot be changed, and a machine may be paused for longer.
func TimedOut(printed string) bool {
	return strings.Contains(printed, "Failed status transport retry counter exceeded (12)") && !wrongData(printed)
}

// late matches what programs print whose peer did not answer: pingpong, perftest, rping, and the machine about one that waited too long.
var late = regexp.MustCompile(`transport retry counter exceeded|status 12|syndrom 0x81|status is 12|RDMA_CM_EVENT_UNREACHABLE|timed out`)

// Late reports whether a program has ended because its peer did not answer, as one in a machine that is paused, and has printed
// nothing of wrong data.
func Late(printed string) bool { return late.MatchString(printed) && !wrongData(printed) }

// DevinfoGID reads the index of the GID of an IPv4 address in what ibv_devinfo -v prints.
func DevinfoGID(out string, addr netip.Addr) (string, error) {
	found := regexp.MustCompile(`GID\[ *(\d+)\]:\s*::ffff:` + regexp.QuoteMeta(addr.String()) + `\b`).FindStringSubmatch(out)
	if found == nil {
		return "", fmt.Errorf("ibv_devinfo shows no GID of %s:\n%s", addr, out)
	}
	return found[1], nil
}
