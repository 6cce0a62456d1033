// SPDX-License-Identifier: Apache-2.0

package qp_test

import (
	"fmt"
	"log"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// printCQ is a completion queue that prints what it gets.
type printCQ string

func (name printCQ) Complete(c verbs.Completion) {
	fmt.Printf("%s: work request %d: %s, %d bytes\n", string(name), c.WRID, c.Status, c.Bytes)
}

// connect brings q from RESET to RTS with the queue pair peer. Both begin at PSN 0.
func connect(q *qp.QP, peer uint32) {
	if err := verbs.Connect(q, verbs.Endpoint{}, verbs.Endpoint{QPN: peer}, verbs.DefaultAttr()); err != nil {
		log.Fatal(err)
	}
}

// deliver moves packets between the two queue pairs until neither has any. This is the
// engine's part: addresses, the payload from memory, the bytes on the wire.
func deliver(now qp.Time, a, b *qp.QP) {
	var out qp.Outbound
	next := func(q *qp.QP) bool { return q.NextAck(now, &out) || q.NextData(now, &out) }
	for next(a) || next(b) {
		payload := make([]byte, out.PayloadLen)
		if !out.Fill(payload) {
			continue // the sender's memory was refused, its work request completes with an error
		}
		d := out.Datagram
		d.Src, d.Dst = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		d.Payload = payload
		bytes, err := d.AppendTo(nil)
		if err != nil {
			log.Fatal(err)
		}
		p, err := rocev2.ParseIP(bytes)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("  %s, PSN %d, %d bytes\n", p.Opcode(), p.BTH().PSN(), p.PayloadLen())
		for _, q := range []*qp.QP{a, b} {
			if q.QPN() == p.BTH().DestQP() {
				q.Receive(now, &p)
			}
		}
	}
}

// Two queue pairs of a reliable connection in one process, without sockets and clocks: a
// SEND with its receive, then a WRITE of two packets.
func Example() {
	table, err := mr.New(mr.Config{})
	if err != nil {
		log.Fatal(err)
	}
	pd := table.AllocPD()
	src, dst := make([]byte, 2048), make([]byte, 2048)
	copy(src, "hello, queue pair")
	from, err := table.Register(mr.Spec{PD: pd, Host: src})
	if err != nil {
		log.Fatal(err)
	}
	to, err := table.Register(mr.Spec{PD: pd, Host: dst, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite})
	if err != nil {
		log.Fatal(err)
	}

	create := func(qpn uint32, name string) *qp.QP {
		return qp.New(qp.Config{
			QPN: qpn, Type: verbs.RC, PD: pd, Memory: table, Count: new(qp.Counters),
			SendCQ: printCQ(name + " send"), RecvCQ: printCQ(name + " receive"), SignalAll: true,
			MaxSend: 16, MaxSendSGE: 1, MaxRecv: 16, MaxRecvSGE: 1,
		})
	}
	client, server := create(1, "client"), create(2, "server")
	connect(client, 2)
	connect(server, 1)

	if err := server.PostRecv(&verbs.RecvWR{ID: 1, SGL: []verbs.SGE{{Addr: to.VA(), Len: 64, LKey: to.LKey()}}}); err != nil {
		log.Fatal(err)
	}
	send := &verbs.SendWR{ID: 2, Op: verbs.OpSend, SGL: []verbs.SGE{{Addr: from.VA(), Len: 17, LKey: from.LKey()}}}
	if err := client.PostSend(send); err != nil {
		log.Fatal(err)
	}
	fmt.Println("SEND")
	deliver(1000, client, server)
	fmt.Printf("%s\n", dst[:17])

	write := &verbs.SendWR{
		ID: 3, Op: verbs.OpWrite, RemoteAddr: to.VA(), RKey: to.RKey(),
		SGL: []verbs.SGE{{Addr: from.VA(), Len: 2048, LKey: from.LKey()}},
	}
	if err := client.PostSend(write); err != nil {
		log.Fatal(err)
	}
	fmt.Println("WRITE")
	fmt.Println("limit before:", client.SendLimit(2000))
	deliver(2000, client, server)
	fmt.Println("limit after:", client.SendLimit(2000))

	// Output:
	// SEND
	//   RC_SEND_ONLY, PSN 0, 17 bytes
	// server receive: work request 1: success, 17 bytes
	//   RC_ACK, PSN 0, 0 bytes
	// client send: work request 2: success, 0 bytes
	// hello, queue pair
	// WRITE
	// limit before: not limited
	//   RC_WRITE_FIRST, PSN 1, 1024 bytes
	//   RC_WRITE_LAST, PSN 2, 1024 bytes
	//   RC_ACK, PSN 2, 0 bytes
	// client send: work request 3: success, 0 bytes
	// limit after: no work
}
