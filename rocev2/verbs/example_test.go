// SPDX-License-Identifier: Apache-2.0

package verbs_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	_ "github.com/softroce/softroce-xdp/rocev2/nic/loopback"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Two queue pairs of a device connect, and one sends a message to the other. Between two hosts, the
// Endpoints are exchanged first, for example over TCP; package rdma does that by the communication
// manager.
func ExampleConnect() {
	dev, err := rdma.Open(context.Background(), "lo", rdma.WithDriver("loopback"))
	check(err)
	defer dev.Close()
	pd, err := dev.AllocPD()
	check(err)
	cq, err := dev.CreateCQ(16)
	check(err)
	init := verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}
	a, err := pd.CreateQP(init)
	check(err)
	b, err := pd.CreateQP(init)
	check(err)
	here := netip.MustParseAddr("127.0.0.1")
	endA := verbs.Endpoint{Addr: here, QPN: a.QPN(), PSN: 100}
	endB := verbs.Endpoint{Addr: here, QPN: b.QPN(), PSN: 200}

	// Receives are posted in INIT, before the peer can send.
	message, buf := []byte("hello"), make([]byte, 64)
	out, err := pd.RegMR(message, 0)
	check(err)
	in, err := pd.RegMR(buf, verbs.AccessLocalWrite)
	check(err)
	check(verbs.ToInit(b, endB, verbs.DefaultAttr()))
	check(b.PostRecv(&verbs.RecvWR{ID: 1, SGL: []verbs.SGE{{Addr: in.VA(), Len: 64, LKey: in.LKey()}}}))
	check(verbs.Connect(b, endB, endA, verbs.DefaultAttr()))
	check(verbs.Connect(a, endA, endB, verbs.DefaultAttr()))

	check(a.PostSend(&verbs.SendWR{ID: 2, Op: verbs.OpSend, SGL: []verbs.SGE{{Addr: out.VA(), Len: 5, LKey: out.LKey()}}}))
	check(cq.Wait(context.Background(), false))
	var done [1]verbs.Completion
	cq.Poll(done[:])
	fmt.Printf("receive %d: %s, %s\n", done[0].WRID, done[0].Status, buf[:done[0].Bytes])
	// Output: receive 1: success, hello
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
