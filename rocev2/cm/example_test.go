// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/cm"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Two managers connect. Here messages go from one to the other by a function call; on a network
// they are UD SENDs between queue pairs 1. Time stands still, as nothing is lost.
func Example() {
	const now = 1
	client, server := cm.New(cm.Config{}), cm.New(cm.Config{})
	port := cm.IPServiceID(cm.PortTCP, 7174)
	check(server.Listen(port, 0))
	id, err := client.Connect(now, cm.ConnectParams{
		Local: netip.MustParseAddr("10.0.0.1"), Peer: netip.MustParseAddr("10.0.0.2"), Service: port,
		QPN: 0x11, PSN: 100, Attr: verbs.DefaultAttr(), Private: []byte("hello"),
	})
	check(err)

	deliver := func(from, to *cm.Manager) {
		for _, a := range from.Take() {
			switch a := a.(type) {
			case cm.Send:
				to.Receive(now, a.Local, a.Peer, a.MAD, cm.Proven)
			case cm.Event:
				fmt.Printf("%s, QPN of the peer %#x\n", a.Kind, a.Path.Remote.QPN)
				switch a.Kind {
				case cm.Request: // bring a queue pair to RTS: path.Connect(qp)
					path := a.Path
					path.Local.QPN, path.Remote.PSN = 0x22, 200
					check(from.Accept(now, a.ID, path, nil))
				case cm.Reply: // the same with a.Path
					check(from.Ready(now, a.ID, nil))
				}
			}
		}
	}
	for range 4 {
		deliver(client, server)
		deliver(server, client)
	}
	state, _ := client.State(id)
	fmt.Println("the client is in", state)

	// Output:
	// Request, QPN of the peer 0x11
	// Reply, QPN of the peer 0x22
	// Established, QPN of the peer 0x0
	// Established, QPN of the peer 0x0
	// the client is in Established
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
