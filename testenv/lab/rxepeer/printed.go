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

// DevinfoGID reads the index of the GID of an IPv4 address in what ibv_devinfo -v prints.
func DevinfoGID(out string, addr netip.Addr) (string, error) {
	found := regexp.MustCompile(`GID\[ *(\d+)\]:\s*::ffff:` + regexp.QuoteMeta(addr.String()) + `\b`).FindStringSubmatch(out)
	if found == nil {
		return "", fmt.Errorf("ibv_devinfo shows no GID of %s:\n%s", addr, out)
	}
	return found[1], nil
}
