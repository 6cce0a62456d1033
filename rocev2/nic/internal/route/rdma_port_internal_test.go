// SPDX-License-Identifier: Apache-2.0

package route

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// The layout is that of rdma/rdma_user_cm.h on a little-endian host.
func TestRDMAPortCommands(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"create ID", createID(0x1122334455667788, mad.PortTCP), "00000000 1800 0400  0000000000000000 8877665544332211 0601 000000000000"},
		{"set option", setOption(7, optionReuseAddr, 0x1122334455667788), "0e000000 1800 0000  8877665544332211 07000000 00000000 01000000 04000000"},
		{"bind IP", bindIP(7, 0x1c06), "02000000 2800 0000  0000000000000000 0a00 1c06 00000000 00000000000000000000000000000000 00000000 07000000"},
	} {
		want, err := hex.DecodeString(strings.ReplaceAll(c.want, " ", ""))
		if err != nil || !bytes.Equal(c.got, want) {
			t.Errorf("%s: %x, want %x", c.name, c.got, want)
		}
	}
}
