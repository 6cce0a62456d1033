// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// ParseAddress is a host and a port; a host without one gets the default port.
func ParseAddress(s string, defaultPort int) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = s, strconv.Itoa(defaultPort)
		if n := len(s); n > 2 && s[0] == '[' && s[n-1] == ']' {
			host = s[1 : n-1]
		}
		if host == "" {
			return "", errors.New("the host is missing: write HOST or HOST:PORT")
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%q: %q is no port: write a number from 1 to 65535", s, port)
	}
	return net.JoinHostPort(host, port), nil
}
