// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"bytes"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

// A peer with any key writes with immediate data, less and more than a receive buffer has. The receiver
// gets kind, length and immediate data, and none of the bytes that earlier messages left in the buffer.
func TestWriteWithImmediate(t *testing.T) {
	a, b := connect(t, openLoop(t, cmpeer.Config{}), rdma.WithRecvBuffers(4), rdma.WithMaxMessage(1000))
	defer a.Close()
	defer b.Close()
	testWriteWithImmediate(t, a, b)
}

// testWriteWithImmediate has a write to b.
func testWriteWithImmediate(t *testing.T, a, b *rdma.Conn) {
	ctx := testkit.Context(t)
	region, err := b.Register(make([]byte, 1<<20), verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	source, err := a.Register(bytes.Repeat([]byte{'w'}, 1<<20), 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := a.Send(ctx, []byte("an earlier message")); err != nil {
			t.Fatal(err)
		}
		m, err := b.RecvMessage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind() != rdma.KindSend || m.Len() != 18 || len(m.Bytes()) != 18 {
			t.Errorf("a SEND of 18 bytes: %s, length %d, %q", m.Kind(), m.Len(), m.Bytes())
		}
		if err := m.Release(); err != nil {
			t.Fatal(err)
		}
	}
	write := func(n int) {
		wr := &verbs.SendWR{
			Op: verbs.OpWriteImm, Imm: 7, SGL: []verbs.SGE{source.SGE(0, n)},
			RemoteAddr: region.Remote().Addr, RKey: region.Remote().RKey,
		}
		if _, err := a.Do(ctx, wr); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{0, 18, 1000, 1001, 1 << 20} {
		write(n)
		m, err := b.RecvMessage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if imm, ok := m.Imm(); m.Kind() != rdma.KindWrite || m.Len() != n || imm != 7 || !ok {
			t.Errorf("a WRITE of %d bytes: %s, length %d, immediate data %d %v", n, m.Kind(), m.Len(), imm, ok)
		}
		if got := m.Bytes(); len(got) > 0 {
			t.Errorf("a WRITE of %d bytes shows %q of the buffer", n, got)
		}
		if err := m.Release(); err != nil {
			t.Fatal(err)
		}
		write(n)
		p := []byte("unchanged")
		if got, err := b.Recv(ctx, p); got != 0 || err != nil || string(p) != "unchanged" {
			t.Errorf("Recv of a WRITE of %d bytes: %d, %v, %q", n, got, err, p)
		}
	}
}
