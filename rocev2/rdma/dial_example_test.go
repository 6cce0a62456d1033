// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	_ "github.com/softroce/softroce-xdp/rocev2/nic/loopback" // a device without an interface
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A client connects, sends a message and receives the answer. The server is the example Listen.
func ExampleDial() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback")) // rdma.Open(ctx, "eth0")
	check(err)
	defer dev.Close()
	defer echoServer(dev, ":7174").Close()

	c, err := rdma.Dial(ctx, dev, "127.0.0.1:7174")
	check(err)
	defer c.Close()
	check(c.Send(ctx, []byte("hello")))
	answer := make([]byte, c.MaxMessage())
	n, err := c.Recv(ctx, answer)
	check(err)
	fmt.Printf("%s\n", answer[:n])

	// Output:
	// hello
}

// echoServer answers each message with itself.
func echoServer(dev verbs.Device, address string, options ...rdma.Option) io.Closer {
	ctx := context.Background()
	l, err := rdma.Listen(ctx, dev, address, options...)
	check(err)
	go func() {
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				return // the listener was closed
			}
			go func() {
				defer c.Close()
				for {
					m, err := c.RecvMessage(ctx)
					if err != nil {
						return // io.EOF: the client has closed
					}
					check(c.Send(ctx, m.Bytes()))
					check(m.Release())
				}
			}()
		}
	}()
	return l
}

// Both ends have a key pair and know the public key of the other one, mostly from files (package seal). The
// connection is encrypted, or there is none.
func ExampleWithEncryption() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback"))
	check(err)
	defer dev.Close()
	client, err := seal.NewIdentity()
	check(err)
	server, err := seal.NewIdentity()
	check(err)
	knows := func(own, peer *seal.Identity) rdma.Option {
		return rdma.WithEncryption(rdma.Encryption{
			Identity: own, Peers: func(netip.Addr) []seal.PublicKey { return []seal.PublicKey{peer.Public()} },
		})
	}
	defer echoServer(dev, ":7175", knows(server, client)).Close()

	c, err := rdma.Dial(ctx, dev, "127.0.0.1:7175", knows(client, server))
	check(err)
	defer c.Close()
	check(c.Send(ctx, []byte("secret")))
	answer := make([]byte, c.MaxMessage())
	n, err := c.Recv(ctx, answer)
	check(err)
	fmt.Printf("%s\n", answer[:n])

	_, err = rdma.Dial(ctx, dev, "127.0.0.1:7175")
	fmt.Println("plain:", err != nil)

	// Output:
	// secret
	// plain: true
}

// A server gives a client its memory, by private data. The client writes to it and reads it, and the
// server's program has nothing to do.
func ExampleConn_Write() {
	ctx := context.Background()
	dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback"))
	check(err)
	defer dev.Close()
	l, err := rdma.Listen(ctx, dev, ":7174")
	check(err)
	pd, err := dev.AllocPD()
	check(err)
	memory := make([]byte, 1<<16)
	region, err := rdma.RegisterMemory(pd, memory, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
	check(err)
	go func() {
		descriptor, err := region.Remote().MarshalBinary()
		check(err)
		r, err := l.Next(ctx)
		check(err)
		_, err = r.Accept(ctx, rdma.WithPD(pd), rdma.WithPrivate(descriptor))
		check(err)
	}()

	c, err := rdma.Dial(ctx, dev, "127.0.0.1:7174")
	check(err)
	defer c.Close()
	var remote rdma.Remote
	check(remote.UnmarshalBinary(c.PeerPrivate()))
	check(c.Write(ctx, []byte("written by the client"), remote))
	back := make([]byte, 21)
	check(c.Read(ctx, back, remote))
	fmt.Printf("%s, %d bytes\n", back, remote.Len)

	// Output:
	// written by the client, 65536 bytes
}

// A server rejects a request and says why.
func ExampleRequest_Reject() {
	ctx := context.Background()
	dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback"))
	check(err)
	defer dev.Close()
	l, err := rdma.Listen(ctx, dev, ":7174")
	check(err)
	go func() {
		r, err := l.Next(ctx)
		check(err)
		check(r.Reject([]byte("come back later")))
	}()

	_, err = rdma.Dial(ctx, dev, "127.0.0.1:7174")
	var rejected *rdma.RejectedError
	if errors.As(err, &rejected) {
		fmt.Printf("%s: %s\n", rejected.Reason, rejected.Private[:15])
	}

	// Output:
	// refused by the application: come back later
}

// A UD queue pair is found by address and port. Work requests then name it by its number and key.
func ExampleResolve() {
	ctx := context.Background()
	dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback"))
	check(err)
	defer dev.Close()
	pd, err := dev.AllocPD()
	check(err)
	cq, err := dev.CreateCQ(16)
	check(err)
	server, err := pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: cq, RecvCQ: cq})
	check(err)
	a, err := rdma.Announce(ctx, dev, ":7174", server, 0x1234)
	check(err)
	defer a.Close()

	s, err := rdma.Resolve(ctx, dev, "127.0.0.1:7174")
	check(err)
	fmt.Printf("found: %v, Q_Key %#x at %s\n", s.QPN == server.QPN(), s.QKey, s.Addr)
	_, err = rdma.Resolve(ctx, dev, "127.0.0.1:7175")
	fmt.Println(err)

	// Output:
	// found: true, Q_Key 0x1234 at 127.0.0.1
	// rdma: resolve 127.0.0.1:7175: cm: not resolved by the peer: nothing listens at this service ID
}

// Asynchronous events tell what no completion tells: an SRQ that runs empty, a link that is down, a
// device that has ended.
func Example_events() {
	ctx := context.Background()
	dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback"))
	check(err)
	p := newPair(verbs.RC)
	defer p.close()
	srq, err := p.pd.CreateSRQ(16, 1)
	check(err)
	q, err := p.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: p.recvCQ, RecvCQ: p.recvCQ, SRQ: srq})
	check(err)
	check(verbs.ToInit(q, verbs.Endpoint{}, verbs.DefaultAttr()))
	check(q.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState))
	for e := range p.dev.Events() {
		fmt.Printf("%s, of our queue pair: %v\n", e.Type, e.QP == q)
		if e.Type == verbs.EventQPLastWQE {
			break
		}
	}

	check(dev.Close())
	_, more := <-dev.Events()
	fmt.Println("events after Close:", more)

	// Output:
	// queue pair: last work request of the SRQ taken, of our queue pair: true
	// events after Close: false
}
