// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/server"
)

// bench returns a benchmark of 2 MiB, a quarter of them local, at a server with a number of bytes.
func bench(t *testing.T, bytes uint64) (*benchmark, *server.Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	dev := devices.Loopback(t)
	s, err := server.Listen(ctx, dev, "127.0.0.1:0", server.Config{Bytes: bytes, SlabBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return &benchmark{
		Device: dev, Server: s.Addr().String(), Node: node.Config{Name: "bench", Period: 50 * time.Millisecond}, Timeout: time.Minute,
		Size: 2 << 20, Local: 512 << 10, Length: 200 * time.Millisecond, Seed: 1,
	}, s
}

// Each figure has accesses, ordered times and a rate, and the node has left afterwards.
func TestBench(t *testing.T) {
	b, s := bench(t, 4<<20)
	f, err := b.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]benchFigure{
		"read": f.Read, "page out": f.PageOut, "random": f.Random, "random write": f.RandomWrite, "sequential": f.Sequential, "sequential write": f.SequentialWrite,
	} {
		if x.Count == 0 || x.P50 <= 0 || x.P99 < x.P50 || x.Rate == 0 {
			t.Errorf("%s: %+v", name, x)
		}
	}
	if pages := b.Size / node.PageBytes; f.PageOut.Count > pages || f.PageOut.Count < pages-b.Local/node.PageBytes {
		t.Errorf("%d of %d pages went out while the memory was filled", f.PageOut.Count, pages)
	}
	if c := s.Status(); len(c.Nodes) != 0 || c.Counts.Lost != 0 {
		t.Errorf("%+v", c)
	}
	var text strings.Builder
	if err := writeFigures(&text, f); err != nil || !strings.HasPrefix(text.String(), "2MiB of memory, 512KiB of it local\n") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// The error for a pool that is too small has both sizes, and the node leaves it.
func TestBenchWithoutSpace(t *testing.T) {
	b, s := bench(t, 1<<20)
	for b.Timeout = 2 * time.Second; ; b.Timeout *= 2 { // on a slow machine, less may be leased within a short time
		_, err := b.Run(t.Context())
		if errors.Is(err, errSpace) && strings.Contains(err.Error(), "1MiB of 2MiB") {
			break
		}
		if !errors.Is(err, errSpace) || b.Timeout > time.Minute {
			t.Fatal(err)
		}
		t.Logf("repeated: %v", err)
	}
	if c := s.Status(); len(c.Nodes) != 0 {
		t.Errorf("%+v", c)
	}
}

// Who ends it while it waits for space is not told that the pool lends too little.
func TestBenchInterrupted(t *testing.T) {
	b, _ := bench(t, 1<<20)
	n, err := node.Join(t.Context(), b.Device, b.Server, b.Node)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.waitForSpace(ctx, n); !errors.Is(err, context.Canceled) || errors.Is(err, errSpace) {
		t.Errorf("%v", err)
	}
}
