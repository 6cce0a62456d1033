// SPDX-License-Identifier: Apache-2.0

package mad_test

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// A REJ that answers a REQ, from the bytes of one to the bytes of the other.
func Example() {
	req := mad.NewREQ(1)
	req.SetLocalCommID(0x1234)
	req.SetServiceID(mad.IPServiceID(mad.PortTCP, 7174))

	arrived, err := mad.ParseREQ(req.Header) // the payload of the datagram
	if err != nil {
		panic(err)
	}
	rej := mad.NewREJ(arrived.TID(), 0, arrived.LocalCommID(), mad.KindREQ, mad.ReasonInvalidServiceID)
	fmt.Printf("%s for %s: %s\n", arrived.Attr(), arrived.ServiceID(), rej.Reason())
	fmt.Println(len(rej.Header), "bytes")

	// Output:
	// REQ for tcp port 7174: nothing listens at this service ID
	// 256 bytes
}
