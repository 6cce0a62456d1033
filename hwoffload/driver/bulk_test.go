// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var bulkMB = flag.Int("card.mb", 16, "megabytes that TestBulk exchanges in each direction")

const (
	bulkRound   = 4 << 20 // bytes of a region, in each direction
	bulkMessage = 1 << 20
)

// TestBulk has two cards exchange data by WRITEs in both directions at once. In each round the
// region begins in another bank of the DDR and crosses a window. Every byte is written and
// compared through the windows. `make card-bulk` exchanges 1 GB.
func TestBulk(t *testing.T) {
	w := newWorld(t, 1)
	a, b := w.connect(verbs.RC, 0, rocev2.PMTU4096)
	rounds := max(1, *bulkMB<<20/bulkRound)
	for round := range rounds {
		ends := [2]*bulkEnd{newBulkEnd(a, round), newBulkEnd(b, round)}
		ends[0].peer, ends[1].peer = ends[1], ends[0]
		err := w.net.Run(600*second, func() bool {
			done := ends[0].step() // both, always
			return ends[1].step() && done
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range ends {
			e.check(fmt.Sprintf("round %d, card %d", round, i))
		}
	}
	t.Logf("%d MB in each direction, all bytes compared", rounds*bulkRound>>20)
}

// bulkEnd is one direction of a round.
type bulkEnd struct {
	*endpoint
	peer       *bulkEnd
	out, in    *driver.MR
	from, to   uint64 // DDR addresses of both regions
	data       []byte // memory of out
	sent, done int
}

func newBulkEnd(e *endpoint, round int) *bulkEnd {
	// Half of a region lies before the border of a window.
	bank := uint64(round%4) << 32
	b := &bulkEnd{endpoint: e, from: bank + 3<<28 - bulkRound/2, to: bank + 6<<28 - bulkRound/2}
	b.data = make([]byte, bulkRound)
	rng := rand.New(rand.NewPCG(uint64(round), uint64(e.mac[5])))
	for i := 0; i < len(b.data); i += 8 {
		binary.LittleEndian.PutUint64(b.data[i:], rng.Uint64())
	}
	if _, err := e.card.DDR().WriteAt(b.data, int64(b.from)); err != nil {
		e.w.t.Fatal(err)
	}
	b.out = e.register(driver.Spec{PD: e.pd.Number(), Addr: b.from, Len: bulkRound, VA: 1 << 40})
	b.in = e.register(driver.Spec{PD: e.pd.Number(), Addr: b.to, Len: bulkRound, VA: 1 << 41, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite})
	return b
}

// step posts what the ring has room for, and reports whether all has completed.
func (b *bulkEnd) step() bool {
	for b.sent < bulkRound/bulkMessage {
		off := uint64(b.sent) * bulkMessage
		err := b.qp.PostSend(&verbs.SendWR{
			ID: uint64(b.sent), Op: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: 1<<41 + off, RKey: b.peer.in.RKey(),
			SGL: []verbs.SGE{{Addr: 1<<40 + off, Len: bulkMessage, LKey: b.out.LKey()}},
		})
		if errors.Is(err, verbs.ErrQueueFull) {
			break
		}
		if err != nil {
			b.w.t.Fatal(err)
		}
		b.sent++
	}
	var got [32]verbs.Completion
	for _, c := range got[:b.cq.Poll(got[:])] {
		if c.Status != verbs.StatusSuccess || c.WRID != uint64(b.done) {
			b.w.t.Fatalf("%+v, want the completion of message %d", c, b.done)
		}
		b.done++
	}
	return b.done == bulkRound/bulkMessage
}

// check compares what the peer has, and ends the round.
func (b *bulkEnd) check(what string) {
	b.w.t.Helper()
	got := make([]byte, bulkRound)
	if _, err := b.peer.card.DDR().ReadAt(got, int64(b.peer.to)); err != nil {
		b.w.t.Fatal(err)
	}
	if !bytes.Equal(got, b.data) {
		b.w.t.Fatalf("%s: the data differ", what)
	}
	if err := errors.Join(b.out.Deregister(), b.in.Deregister()); err != nil {
		b.w.t.Fatal(err)
	}
}
