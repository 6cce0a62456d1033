// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"net/netip"

	_ "github.com/softroce/softroce-xdp/rocev2/nic/loopback" // "softroce" on an attached interface
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// An RDMA WRITE, from opening the device to the completion. Both queue pairs are in this
// process here. Two hosts exchange Endpoint, address and rkey by a channel of their own.
func Example_write() {
	ctx := context.Background()
	dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback"))
	check(err)
	defer dev.Close()
	pd, err := dev.AllocPD()
	check(err)
	cq, err := dev.CreateCQ(16)
	check(err)
	src, dst := []byte("written without the peer's CPU"), make([]byte, 30)
	local, err := pd.RegMR(src, 0)
	check(err)
	remote, err := pd.RegMR(dst, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	check(err)

	init := verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}
	client, err := pd.CreateQP(init)
	check(err)
	server, err := pd.CreateQP(init)
	check(err)
	here := netip.MustParseAddr("127.0.0.1")
	a := verbs.Endpoint{Addr: here, QPN: client.QPN(), PSN: 100}
	b := verbs.Endpoint{Addr: here, QPN: server.QPN(), PSN: 200}
	check(verbs.Connect(client, a, b, verbs.DefaultAttr()))
	check(verbs.Connect(server, b, a, verbs.DefaultAttr()))

	check(client.PostSend(&verbs.SendWR{
		ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: remote.VA(), RKey: remote.RKey(),
		SGL: []verbs.SGE{{Addr: local.VA(), Len: uint32(len(src)), LKey: local.LKey()}},
	}))
	check(cq.Wait(ctx, false))
	var done [1]verbs.Completion
	cq.Poll(done[:])
	fmt.Printf("work request %d: %s\n%s\n", done[0].WRID, done[0].Status, dst)

	// Output:
	// work request 1: success
	// written without the peer's CPU
}

// A SEND with immediate data goes to the receive that the peer has posted. Only the receiver
// knows where in its memory that is.
func Example_sendRecv() {
	p := newPair(verbs.RC)
	defer p.close()
	check(p.server.PostRecv(&verbs.RecvWR{ID: 7, SGL: p.serverMR(0, 64)}))

	copy(p.clientBuf, "hello, queue pair")
	check(p.client.PostSend(&verbs.SendWR{ID: 1, Op: verbs.OpSendImm, Imm: 42, Flags: verbs.Signaled, SGL: p.clientMR(0, 17)}))
	sent, received := wait(p.sendCQ), wait(p.recvCQ)
	fmt.Printf("send %d: %s\n", sent.WRID, sent.Status)
	fmt.Printf("receive %d: %s, %d bytes, immediate %d: %s\n", received.WRID, received.Status, received.Bytes, received.Imm,
		p.serverBuf[:received.Bytes])

	// Output:
	// send 1: success
	// receive 7: success, 17 bytes, immediate 42: hello, queue pair
}

// An RDMA READ copies from the peer's memory. Without the right key it ends the connection.
func Example_read() {
	p := newPair(verbs.RC)
	defer p.close()
	copy(p.serverBuf, "what the server has")
	read := verbs.SendWR{
		ID: 1, Op: verbs.OpRead, Flags: verbs.Signaled, SGL: p.clientMR(0, 19), RemoteAddr: p.remote.VA(), RKey: p.remote.RKey(),
	}
	check(p.client.PostSend(&read))
	c := wait(p.sendCQ)
	fmt.Printf("%s: %s\n", c.Status, p.clientBuf[:19])

	read.RKey++
	check(p.client.PostSend(&read))
	c = wait(p.sendCQ)
	fmt.Printf("%s, state %s\n", c.Status, p.client.State())

	// Output:
	// success: what the server has
	// remote access error, state ERR
}

// Atomics change 8 bytes of the peer's memory in host order and return what was there.
func Example_atomics() {
	p := newPair(verbs.RC)
	defer p.close()
	counter, old := p.serverBuf[:8], p.clientBuf[:8]
	binary.NativeEndian.PutUint64(counter, 40)
	wr := verbs.SendWR{
		Op: verbs.OpFetchAdd, Add: 2, Flags: verbs.Signaled, SGL: p.clientMR(0, 8), RemoteAddr: p.remote.VA(), RKey: p.remote.RKey(),
	}
	check(p.client.PostSend(&wr))
	fmt.Println("FETCH_ADD:", wait(p.sendCQ).Status, binary.NativeEndian.Uint64(old), "->", binary.NativeEndian.Uint64(counter))

	wr.Op, wr.Compare, wr.Swap = verbs.OpCompareSwap, 42, 7
	check(p.client.PostSend(&wr))
	fmt.Println("COMPARE_SWAP:", wait(p.sendCQ).Status, binary.NativeEndian.Uint64(old), "->", binary.NativeEndian.Uint64(counter))

	// Output:
	// FETCH_ADD: success 40 -> 42
	// COMPARE_SWAP: success 42 -> 7
}

// A queue pair of UD sends each message to the queue pair that the work request names. The
// receive buffer begins with GRHLen bytes of header.
func Example_datagram() {
	p := newPair(verbs.UD)
	defer p.close()
	check(p.server.PostRecv(&verbs.RecvWR{ID: 7, SGL: p.serverMR(0, verbs.GRHLen+64)}))
	ah, err := p.pd.CreateAH(verbs.AddressVector{Dst: p.addr})
	check(err)
	defer ah.Destroy()

	copy(p.clientBuf, "to whom it may concern")
	check(p.client.PostSend(&verbs.SendWR{
		ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled, SGL: p.clientMR(0, 22),
		AH: ah, RemoteQPN: p.server.QPN(), RemoteQKey: qkey,
	}))
	sent, received := wait(p.sendCQ), wait(p.recvCQ)
	fmt.Printf("send: %s\n", sent.Status)
	fmt.Printf("receive: %s, from the client: %v: %s\n", received.Status, received.SrcQP == p.client.QPN(),
		p.serverBuf[verbs.GRHLen:received.Bytes])

	// Output:
	// send: success
	// receive: success, from the client: true: to whom it may concern
}

const qkey = 0x11111111

// pair is a client and a server on one loopback device. The client completes to sendCQ, the
// server to recvCQ.
type pair struct {
	dev                  verbs.Device
	pd                   verbs.PD
	addr                 netip.Addr
	sendCQ, recvCQ       verbs.CQ
	client, server       verbs.QP
	clientBuf, serverBuf []byte
	local, remote        verbs.MR
}

func newPair(t verbs.QPType) *pair {
	p := &pair{clientBuf: make([]byte, 4096), serverBuf: make([]byte, 4096)}
	var err error
	p.dev, err = rdma.Open(context.Background(), "lo", rdma.WithDriver("loopback"))
	check(err)
	port, err := p.dev.Port()
	check(err)
	p.addr = port.GIDs[0]
	p.pd, err = p.dev.AllocPD()
	check(err)
	all := verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	p.local, err = p.pd.RegMR(p.clientBuf, all)
	check(err)
	p.remote, err = p.pd.RegMR(p.serverBuf, all)
	check(err)
	p.sendCQ, err = p.dev.CreateCQ(16)
	check(err)
	p.recvCQ, err = p.dev.CreateCQ(16)
	check(err)
	p.client, err = p.pd.CreateQP(verbs.QPInit{Type: t, SendCQ: p.sendCQ, RecvCQ: p.sendCQ})
	check(err)
	p.server, err = p.pd.CreateQP(verbs.QPInit{Type: t, SendCQ: p.recvCQ, RecvCQ: p.recvCQ})
	check(err)
	a := verbs.Endpoint{Addr: p.addr, QPN: p.client.QPN(), QKey: qkey}
	b := verbs.Endpoint{Addr: p.addr, QPN: p.server.QPN(), QKey: qkey}
	check(verbs.Connect(p.client, a, b, verbs.DefaultAttr()))
	check(verbs.Connect(p.server, b, a, verbs.DefaultAttr()))
	return p
}

func (p *pair) close() { check(p.dev.Close()) }

// clientMR is a list of one element, n bytes from off of the client's memory.
func (p *pair) clientMR(off, n int) []verbs.SGE { return sgl(p.local, off, n) }

// serverMR is the same of the server's memory.
func (p *pair) serverMR(off, n int) []verbs.SGE { return sgl(p.remote, off, n) }

func sgl(m verbs.MR, off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: m.VA() + uint64(off), Len: uint32(n), LKey: m.LKey()}}
}

// wait returns the next completion.
func wait(cq verbs.CQ) verbs.Completion {
	var c [1]verbs.Completion
	check(cq.Wait(context.Background(), false))
	cq.Poll(c[:])
	return c[0]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
