// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"context"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

// BenchmarkSend compares Conn.Send of 64 bytes with PostSend and Poll of the same engine: the time
// from the call until the peer's acknowledgement.
func BenchmarkSend(b *testing.B) {
	b.Run("verbs", func(b *testing.B) {
		p := newPair(verbs.RC)
		defer p.close()
		wr := verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: p.clientMR(0, 64)}
		recv := verbs.RecvWR{SGL: p.serverMR(0, 64)}
		var c [1]verbs.Completion
		for range 8 {
			check(p.server.PostRecv(&recv))
		}
		for b.Loop() {
			check(p.client.PostSend(&wr))
			for p.sendCQ.Poll(c[:]) == 0 {
				check(p.sendCQ.Wait(context.Background(), false))
			}
			for p.recvCQ.Poll(c[:]) == 0 {
				check(p.recvCQ.Wait(context.Background(), false))
			}
			check(p.server.PostRecv(&recv))
		}
	})
	b.Run("conn", func(b *testing.B) {
		dev := openLoop(b, cmpeer.Config{})
		x, y := connect(b, dev)
		ctx := context.Background()
		p := make([]byte, 64)
		for b.Loop() {
			check(x.Send(ctx, p))
			if _, err := y.Recv(ctx, p); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPingPong is the round trip of two goroutines that answer each other.
func BenchmarkPingPong(b *testing.B) {
	dev := openLoop(b, cmpeer.Config{})
	x, y := connect(b, dev)
	go func() {
		p := make([]byte, 64)
		for {
			n, err := y.Recv(context.Background(), p)
			if err != nil || y.Send(context.Background(), p[:n]) != nil {
				return
			}
		}
	}()
	p := make([]byte, 64)
	for b.Loop() {
		check(x.Send(context.Background(), p))
		if _, err := x.Recv(context.Background(), p); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	_ = x.Close()
}

// BenchmarkWrite compares Conn.Write, which copies, with a WRITE from registered memory.
func BenchmarkWrite(b *testing.B) {
	const size = 64 << 10
	dev := openLoop(b, cmpeer.Config{})
	x, y := connect(b, dev)
	ctx := context.Background()
	remote, err := y.Register(make([]byte, size), verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	check(err)
	local, err := x.Register(make([]byte, size), 0)
	check(err)
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			check(x.Write(ctx, local.Bytes(), remote.Remote()))
		}
	})
	b.Run("registered", func(b *testing.B) {
		b.SetBytes(size)
		wr := verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{local.SGE(0, size)}, RemoteAddr: remote.VA(), RKey: remote.RKey()}
		for b.Loop() {
			_, err := x.Do(ctx, &wr)
			check(err)
		}
	})
}
