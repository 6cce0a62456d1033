// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/mempool/directory"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/server"
	"github.com/softroce/softroce-xdp/mempool/spread"
	"github.com/softroce/softroce-xdp/mempool/vmm"
)

// listed is a directory of servers that does not change.
type listed []directory.Server

func (l listed) Servers(context.Context) ([]directory.Server, error) { return l, nil }

func (l listed) Add(context.Context, directory.Server) (directory.Entry, error) {
	return nil, errors.New("the list does not change")
}

// S4: a region whose pages are on two servers with a mirror has the content of a slice, also after one of them
// is gone; after the other one, its pages that are not local are errors, never zeroes.
func TestRegionOverMirror(t *testing.T) {
	const size = 1 << 20
	ctx := testkit.Context(t)
	dev := devices.Loopback(t)
	var list listed
	var kill []func()
	for _, name := range []string{"s1", "s2"} {
		s := testkit.Must1(server.Listen(ctx, dev, "127.0.0.1:0", server.Config{
			Bytes: 64 * slab, SlabBytes: slab, Lease: lease.Config{Grace: testkit.Patience},
		}))(t)
		running, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { _ = s.Serve(running); close(done) }()
		kill = append(kill, func() { stop(); <-done })
		t.Cleanup(kill[len(kill)-1])
		list = append(list, directory.Server{Name: name, Address: s.Addr().String(), SlabBytes: slab, Slabs: 64, Free: 64})
	}
	servers, err := spread.Open(ctx, dev, list, spread.Config{
		Name: "one", Period: 50 * time.Millisecond, Demand: 2 * size, Mirror: true, PageBytes: vmm.PageSize,
	})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = servers.Close() })
	r := region(t, vmm.Config{Size: size, Local: size / 4, Deadline: testkit.Patience}, servers)
	want := make([]byte, size)
	rnd := rand.New(rand.NewPCG(1, 7))
	use(t, r, want, rnd, 500)
	kill[0]()
	use(t, r, want, rnd, 500)
	got := make([]byte, size)
	if _, err := r.ReadAt(got, 0); err != nil || sha256.Sum256(got) != sha256.Sum256(want) {
		t.Errorf("the region differs after one server is gone (%v)", err)
	}
	kill[1]()
	page, failed := make([]byte, vmm.PageSize), 0
	for off := int64(0); off < size; off += vmm.PageSize {
		_, err := r.ReadAt(page, off)
		var p *vmm.PageError
		switch {
		case errors.As(err, &p):
			failed++
		case err != nil:
			t.Error(err)
		case !bytes.Equal(page, want[off:off+vmm.PageSize]):
			t.Fatalf("the page at %d differs", off)
		}
	}
	if failed == 0 {
		t.Error("no page is an error, and both servers are gone")
	}
}
