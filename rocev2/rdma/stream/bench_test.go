// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"context"
	"io"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/rdma/stream"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// BenchmarkGoodput compares a stream with SENDs of the same engine, from registered memory to
// registered memory, with as many outstanding messages of the same length: MB/s.
func BenchmarkGoodput(b *testing.B) {
	const size, depth = 64 << 10, 16
	b.Run("send", func(b *testing.B) { sends(b, size, depth) })
	b.Run("stream", func(b *testing.B) {
		x, y := pair(b, openLoop(b), stream.WithWindow(2*depth, size))
		transferAll(b, x, y, size)
	})
	b.Run("stream with the default window", func(b *testing.B) {
		x, y := pair(b, openLoop(b))
		transferAll(b, x, y, size)
	})
}

// transferAll writes b.N pieces and reads them at the other end.
func transferAll(b *testing.B, x, y *stream.Conn, size int) {
	done := make(chan error, 1)
	go func() {
		p := make([]byte, size)
		for {
			if _, err := y.Read(p); err != nil {
				done <- err
				return
			}
		}
	}()
	p := make([]byte, size)
	b.SetBytes(int64(size))
	for b.Loop() {
		if _, err := x.Write(p); err != nil {
			b.Fatal(err)
		}
	}
	if err := x.CloseWrite(); err != nil {
		b.Fatal(err)
	}
	if err := <-done; err != io.EOF {
		b.Fatal(err)
	}
}

// sends sends b.N messages, of which depth are outstanding.
func sends(b *testing.B, size, depth int) {
	dev := openLoop(b)
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	pd, err := dev.AllocPD()
	must(err)
	cq, err := dev.CreateCQ(4 * depth)
	must(err)
	all, err := pd.RegMR(make([]byte, 2*size*depth), verbs.AccessLocalWrite)
	must(err)
	var qs [2]verbs.QP
	port, err := dev.Port()
	must(err)
	var ends [2]verbs.Endpoint
	for i := range qs {
		qs[i], err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
		must(err)
		ends[i] = verbs.Endpoint{Addr: port.GIDs[0], QPN: qs[i].QPN()}
	}
	attr := verbs.DefaultAttr()
	attr.PMTU = 5
	must(verbs.Connect(qs[0], ends[0], ends[1], attr))
	must(verbs.Connect(qs[1], ends[1], ends[0], attr))
	at := func(i int) []verbs.SGE {
		return []verbs.SGE{{Addr: all.VA() + uint64(i*size), Len: uint32(size), LKey: all.LKey()}}
	}
	for i := range depth {
		must(qs[1].PostRecv(&verbs.RecvWR{ID: uint64(depth + i), SGL: at(depth + i)}))
	}
	room := depth
	var c [32]verbs.Completion
	reap := func() {
		must(cq.Wait(context.Background(), false))
		for _, w := range c[:cq.Poll(c[:])] {
			if w.Status != verbs.StatusSuccess {
				b.Fatal(w.Status)
			}
			if w.WRID >= uint64(depth) {
				must(qs[1].PostRecv(&verbs.RecvWR{ID: w.WRID, SGL: at(int(w.WRID))}))
			} else {
				room++
			}
		}
	}
	b.SetBytes(int64(size))
	next := 0
	for b.Loop() {
		for room == 0 {
			reap()
		}
		must(qs[0].PostSend(&verbs.SendWR{ID: uint64(next), Op: verbs.OpSend, Flags: verbs.Signaled, SGL: at(next)}))
		next, room = (next+1)%depth, room-1
	}
	for room < depth {
		reap()
	}
}
