// SPDX-License-Identifier: Apache-2.0

package rocev2_test

import (
	"fmt"
	"log"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
)

// A packet is built, gets a time stamp behind its ICRC, and is parsed again.
func Example() {
	d := rocev2.Datagram{
		Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"),
		Opcode: rocev2.RCWriteOnly, DestQP: 0x12, PSN: 7, VA: 0x1000, RKey: 0x42, DMALen: 5, Payload: []byte("hello"),
	}
	b, err := d.AppendTo(nil)
	if err != nil {
		log.Fatal(err)
	}
	if b, err = rocev2.AppendStamp(b, &rocev2.Stamp{Flags: rocev2.StampT1, T1: 1000}); err != nil {
		log.Fatal(err)
	}

	p, err := rocev2.ParseIP(b)
	if err != nil {
		log.Fatal(err)
	}
	stamp, err := p.Stamp()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s to queue pair %#x: %s\n", p.Opcode(), p.BTH().DestQP(), p.Payload())
	fmt.Println("remote address", p.RETH().VA(), "T1", stamp.T1, "ICRC is right:", p.VerifyICRC() == nil)
	// Output:
	// RC_WRITE_ONLY to queue pair 0x12: hello
	// remote address 4096 T1 1000 ICRC is right: true
}
