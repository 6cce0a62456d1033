// SPDX-License-Identifier: Apache-2.0

package cmservice_test

import (
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/cmservice"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// hosts is a transport that hands each message to the service at its address. A real one sends a
// UD SEND Only from queue pair 1.
type hosts map[netip.Addr]*cmservice.Service

func (h hosts) Send(local, peer netip.Addr, m mad.Header)      { h[peer].Receive(local, peer, m, cm.Plain) }
func (hosts) Steer(cm.Steer) error                             { return nil }  // nobody else is there
func (hosts) Reach(_, _ netip.Addr, _ cm.Proof, _ func()) bool { return true } // all paths are known

// Two applications of different hosts connect. A device has the service behind OpenCM, and the queue
// pairs that are left out here.
func Example() {
	here, there := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	net := hosts{}
	net[here], net[there] = cmservice.New(net, cm.Config{}), cmservice.New(net, cm.Config{})
	defer net[here].Close()
	defer net[there].Close()

	server, err := net[there].Open()
	check(err)
	http := mad.IPServiceID(mad.PortTCP, 80)
	check(server.Listen(http, 0))
	client, err := net[here].Open()
	check(err)
	id, err := client.Connect(cm.ConnectParams{Local: here, Peer: there, Service: http, QPN: 0x11, PSN: 100, Attr: verbs.DefaultAttr()})
	check(err)

	request := <-server.Events()
	path := request.Path
	path.Local.QPN, path.Remote.PSN = 0x22, 200
	check(server.Accept(request.ID, path, nil)) // after path.Connect(queuePair)

	reply := <-client.Events()
	check(client.Ready(id, nil)) // after reply.Path.Connect(queuePair)
	fmt.Printf("%s, then %s: the queue pairs are %#x and %#x\n", request.Kind, reply.Kind, 0x11, reply.Path.Remote.QPN)
	fmt.Println((<-client.Events()).Kind, (<-server.Events()).Kind)

	// Output:
	// Request, then Reply: the queue pairs are 0x11 and 0x22
	// Established Established
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
