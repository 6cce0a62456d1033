// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"bytes"
	"fmt"
	"log"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/seal"
)

// Two hosts agree on keys, and one packet goes from the first to the second.
func Example() {
	alice, err := seal.NewIdentity()
	check(err)
	bob, err := seal.NewIdentity()
	check(err)

	// The offer is the private data of the REQ, the answer that of the REP.
	const qpnAlice, qpnBob = 0x800001, 0x800002
	src, dst := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	connection := seal.Binding{Initiator: src, Responder: dst, QPN: qpnAlice, CommID: 7}
	accepted := seal.Accepted{QPN: qpnBob, PSN: 100} // the REP says it, too
	initiator, err := seal.Initiate(0, seal.Config{Identity: alice, Peer: bob.Public()}, connection)
	check(err)
	keysOfPeer := []seal.PublicKey{alice.Public()}
	responder, err := seal.Respond(0, seal.Config{Identity: bob, Peers: keysOfPeer}, connection, accepted, initiator.Message())
	check(err)
	check(initiator.Answer(0, accepted, responder.Message()))
	sealer, _, err := initiator.Take(0, seal.Limits{})
	check(err)
	_, opener, err := responder.Take(0, seal.Limits{})
	check(err)

	// Sender: headers, plain data, then encryption, then the ICRC.
	data := []byte("Hello")
	d := rocev2.Datagram{Src: src, Dst: dst, Opcode: rocev2.RCSendOnly, DestQP: qpnBob, Sealed: true}
	frame := make([]byte, 2048)
	place, err := d.Begin(frame, len(data)+seal.Overhead)
	check(err)
	copy(seal.Plain(place), data)
	check(sealer.SealDatagram(frame))
	n := d.Seal(frame)
	recorded := bytes.Clone(frame[:n])

	// Receiver.
	p, err := rocev2.ParseIP(frame[:n])
	check(err)
	check(p.VerifyICRC())
	check(opener.OpenPacket(0, &p))
	responder.Opened(0)
	fmt.Printf("%s, %v\n", p.Payload(), responder.State())
	again, err := rocev2.ParseIP(recorded)
	check(err)
	fmt.Println(opener.OpenPacket(0, &again))
	// Output:
	// Hello, confirmed
	// seal: packet was received already
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
