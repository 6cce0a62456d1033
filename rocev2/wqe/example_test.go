// SPDX-License-Identifier: Apache-2.0

package wqe_test

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// A producer writes an entry, the consumer reads a copy of it.
func Example() {
	ring := make([]byte, wqe.SendBytes(0, 1))
	wr := verbs.SendWR{ID: 7, Op: verbs.OpWrite, RemoteAddr: 0x1000, RKey: 5, SGL: []verbs.SGE{{Addr: 0x2000, Len: 64, LKey: 3}}}
	fmt.Println(wqe.EncodeSend(ring, verbs.RC, &wr, 0))

	entry := append([]byte(nil), ring...) // the producer may change the ring
	var got verbs.SendWR
	_, ok := wqe.DecodeSend(entry, verbs.RC, &got)
	fmt.Println(ok, got.ID, got.SGL[0].Len)
	// Output:
	// <nil>
	// true 7 64
}
