// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/mempool/internal/proto"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func testNode() *Node {
	return &Node{
		welcome: proto.Welcome{SlabBytes: 64 << 10}, changed: make(chan struct{}, 1), done: make(chan struct{}), slabs: map[uint32]*slab{},
		returned: map[uint32]uint32{}, closed: true,
	}
}

// The time to return a slab is three quarters of what the server gives, and later leases do not move it.
func TestReturnTime(t *testing.T) {
	n, now := testNode(), time.Now().Add(time.Hour)
	entry := func(left time.Duration) []proto.Entry {
		return []proto.Entry{{Slab: 3, VA: 1, RKey: 2, Return: uint32(left.Microseconds())}}
	}
	n.setLease(1, 0, entry(0), now)
	if l := n.Lease(); !l.Slabs[0].Return.IsZero() || l.Bytes() != 64<<10 {
		t.Errorf("%+v", l)
	}
	for elapsed := range 10 * time.Second / time.Second {
		n.setLease(2, 0, entry((20-elapsed)*time.Second), now.Add(elapsed*time.Second))
		if l := n.Lease(); !l.Slabs[0].Return.Equal(now.Add(15*time.Second)) || l.Bytes() != 0 {
			t.Fatalf("after %d s: %v, want 15 s", elapsed, l.Slabs[0].Return.Sub(now))
		}
	}
	n.setLease(3, 0, entry(0), now) // withdrawn
	n.setLease(4, 0, entry(20*time.Second), now.Add(time.Minute))
	if l := n.Lease(); !l.Slabs[0].Return.Equal(now.Add(75 * time.Second)) {
		t.Errorf("asked again: %v, want 75 s", l.Slabs[0].Return.Sub(now))
	}
}

// A lease that the server sent before it had received a Return does not bring the slab back.
func TestLeaseCrossesReturn(t *testing.T) {
	n, now := testNode(), time.Now()
	whole := []proto.Entry{{Slab: 3, VA: 1, RKey: 2}, {Slab: 4, VA: 5, RKey: 6}}
	n.setLease(1, 0, whole, now)
	if list := numbers(n.remove([]uint32{3, 99})); len(list) != 1 || list[0] != 3 {
		t.Fatalf("returned %v", list)
	}
	n.setLease(2, 0, whole, now)
	if l := n.Lease(); len(l.Slabs) != 1 || l.Slabs[0].Number != 4 {
		t.Errorf("the slab is back: %+v", l)
	}
	n.setLease(3, 1, []proto.Entry{{Slab: 3, VA: 1, RKey: 7}}, now) // leased again
	if l := n.Lease(); len(l.Slabs) != 1 || l.Slabs[0].Remote.RKey != 7 {
		t.Errorf("%+v", l)
	}
}

// Distinct pages of the lease count as used, in the period of the access.
func TestUsed(t *testing.T) {
	n, now := testNode(), time.Now()
	n.setLease(1, 0, []proto.Entry{{Slab: 3, VA: 1 << 20, RKey: 2}}, now)
	n.SetDemand(7)
	for _, x := range []struct {
		offset uint64
		length int
	}{{0, 1}, {0, PageBytes}, {PageBytes - 1, 2}, {60 << 10, 4 << 10}, {8192, 0}} {
		s, r, err := n.locate(3, 2, x.offset, x.length)
		if err != nil || r.Addr != 1<<20+x.offset || r.Len != uint64(x.length) {
			t.Fatalf("%+v: %+v, %v", x, r, err)
		}
		s.inUse.Done()
	}
	if _, _, err := n.locate(3, 1, 0, 1); !errors.Is(err, ErrNotLeased) {
		t.Errorf("the key of an earlier lease: %v", err)
	}
	if demand, used := n.endPeriod(); demand != 7 || used != 3*PageBytes {
		t.Errorf("demand %d, used %d; want 7 and 3 pages", demand, used)
	}
	n.setLease(2, 0, []proto.Entry{{Slab: 3, VA: 1 << 20, RKey: 2}}, now)
	if _, used := n.endPeriod(); used != 0 {
		t.Errorf("%d bytes were used in the period before", used)
	}
}

// An operation that is posted when the connection has ended, and with it the goroutine that completes operations, is finished, too.
func TestPostedAtTheEnd(t *testing.T) {
	dev, ctx := devices.Loopback(t), testkit.Context(t)
	at, accepted := acceptOne(ctx, t, dev)
	conn := testkit.Must1(rdma.Dial(ctx, dev, at))(t)
	defer conn.Close()
	defer testkit.Receive(t, "the connection is accepted", accepted).Close()
	op := testkit.Must1(conn.Start(ctx, &verbs.SendWR{Op: verbs.OpSend}))(t)

	n, x := testNode(), &slab{}
	n.started = make(chan pending, DefaultDepth)
	close(n.done)
	n.complete()
	done := make(chan error, DefaultDepth)
	for range DefaultDepth {
		x.inUse.Add(1)
		n.posted(pending{op, x, func(err error) { done <- err }})
	}
	for range DefaultDepth {
		testkit.Receive(t, "the operation is finished", done)
	}
	x.inUse.Wait()
}
