// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/pages"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// benchmark is a node that measures its accesses to the pool. Its memory is a vmm.Region: Local bytes are local, and
// all of it is Size.
type benchmark struct {
	Device      verbs.Device
	Server      string // "host:port"
	Node        node.Config
	Timeout     time.Duration // longest wait for the connection, and for the space
	Size, Local uint64        // bytes
	Length      time.Duration // duration of each measurement
	Seed        uint64        // seed of the random pages

	Joined func(*node.Node) // called with the connection; nil for nobody
}

// benchFigures are the results of benchmark.
type benchFigures struct {
	Size  uint64 `json:"size_bytes"`
	Local uint64 `json:"local_bytes"`
	// Read is a READ of 4096 bytes, one after the other, without the memory manager.
	Read benchFigure `json:"read_4k"`
	// PageOut is a page that eviction writes to the pool while the memory is filled, many at a time.
	PageOut benchFigure `json:"page_out"`
	// Random is an access to a page that is not local, one after the other.
	Random benchFigure `json:"random_page_in"`
	// RandomWrite is a WriteAt of a random page, local or not.
	RandomWrite benchFigure `json:"random_write"`
	// Sequential is an access of 64 KiB, one after the other from the first page to the last.
	Sequential benchFigure `json:"sequential_64k"`
	// SequentialWrite is a WriteAt of 64 KiB.
	SequentialWrite benchFigure `json:"sequential_write_64k"`
}

// benchFigure is a number of accesses.
type benchFigure struct {
	Count uint64 `json:"count"`
	P50   int64  `json:"p50_ns"`
	P99   int64  `json:"p99_ns"`
	Rate  uint64 `json:"bits_per_second"` // rate of all data in the time of all accesses
}

// meter collects times of accesses.
type meter struct {
	mu    sync.Mutex
	hist  *hdrhistogram.Histogram
	bytes uint64
	began time.Time
	ended time.Time
}

func newMeter() *meter {
	return &meter{hist: hdrhistogram.New(1, int64(time.Hour), 3), began: time.Now()}
}

func (m *meter) add(d time.Duration, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.hist.RecordValue(min(int64(d), int64(time.Hour))) // in range
	m.bytes += uint64(bytes)
	m.ended = time.Now()
}

func (m *meter) figure() benchFigure {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := benchFigure{Count: uint64(m.hist.TotalCount()), P50: m.hist.ValueAtQuantile(50), P99: m.hist.ValueAtQuantile(99)}
	if d := m.ended.Sub(m.began); d > 0 {
		f.Rate = uint64(float64(8*m.bytes) / d.Seconds())
	}
	return f
}

// timedStore measures the WRITEs of a store.
type timedStore struct {
	*pages.Store
	writes *meter
}

func (s timedStore) WritePages(list []vmm.Request) {
	timed := make([]vmm.Request, len(list))
	begin := time.Now()
	for i, r := range list {
		timed[i] = r
		timed[i].Done = func(err error) {
			if err == nil {
				s.writes.add(time.Since(begin), len(r.Data))
			}
			r.Done(err)
		}
	}
	s.Store.WritePages(timed)
}

// errSpace: the pool does not have the space that a benchmark needs.
var errSpace = errors.New("the pool lends too little")

// Run joins the pool, measures, and leaves it.
func (b *benchmark) Run(ctx context.Context) (f benchFigures, err error) {
	joining, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	b.Node.Demand = b.Size
	n, err := node.Join(joining, b.Device, b.Server, b.Node)
	if err != nil {
		return f, err
	}
	if b.Joined != nil {
		b.Joined(n)
	}
	defer func() {
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.Timeout)
		defer cancel()
		err = errors.Join(err, n.Leave(leaving))
	}()
	if err := b.waitForSpace(joining, n); err != nil {
		return f, err
	}
	f.Size, f.Local = b.Size, b.Local
	if f.Read, err = b.raw(ctx, n); err != nil {
		return f, err
	}
	err = b.manage(ctx, n, &f)
	return f, err
}

// waitForSpace waits until the lease has the pages that cannot be local.
func (b *benchmark) waitForSpace(ctx context.Context, n *node.Node) error {
	for {
		leased := n.Lease().Bytes()
		if leased >= b.Size {
			return nil
		}
		select {
		case <-n.Changed():
		case <-n.Done():
			return n.Err()
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err() // the user wants no answer any more
			}
			return fmt.Errorf("%w: %s of %s after %v: see `softroce-pool status`", errSpace, cli.Bytes(leased), cli.Bytes(b.Size), b.Timeout)
		}
	}
}

// each repeats an access for Length, and until the meter has one.
func (b *benchmark) each(ctx context.Context, m *meter, access func(i int) error) error {
	end := time.Now().Add(b.Length)
	for i := 0; time.Now().Before(end) || m.figure().Count == 0; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := access(i); err != nil {
			return err
		}
	}
	return nil
}

// raw measures READs of 4096 bytes of the first slab.
func (b *benchmark) raw(ctx context.Context, n *node.Node) (benchFigure, error) {
	slab, page, m := n.Lease().Slabs[0], make([]byte, node.PageBytes), newMeter()
	err := b.each(ctx, m, func(i int) error {
		begin := time.Now()
		err := n.Read(ctx, slab.Number, uint64(i)*node.PageBytes%slab.Remote.Len, page)
		m.add(time.Since(begin), len(page))
		return err
	})
	return m.figure(), err
}

const scanBytes = 64 << 10

// manage measures accesses by the memory manager.
func (b *benchmark) manage(ctx context.Context, n *node.Node, f *benchFigures) error {
	pool, err := pages.New(n, pages.Config{Demand: b.Size})
	if err != nil {
		return err
	}
	defer pool.Close()
	out := newMeter()
	r, err := vmm.NewRegion(vmm.Config{Size: int64(b.Size), Local: int64(b.Local), Deadline: b.Timeout}, timedStore{pool, out})
	if err != nil {
		return err
	}
	defer r.Close()
	buf := make([]byte, scanBytes)
	fill(buf, 1, 1, 0)
	for at := int64(0); at < r.Size(); at += scanBytes {
		if _, err := r.WriteAt(buf[:min(scanBytes, r.Size()-at)], at); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	f.PageOut = out.figure()
	random := rand.New(rand.NewPCG(b.Seed, 0x5352))
	at := func() int64 { return random.Int64N(r.Size()/vmm.PageSize) * vmm.PageSize }
	page := buf[:vmm.PageSize]
	in := newMeter()
	if err := b.each(ctx, in, func(int) error {
		before, begin := r.Stats().Faults, time.Now()
		_, err := r.ReadAt(page, at())
		if took := time.Since(begin); r.Stats().Faults != before {
			in.add(took, len(page))
		}
		return err
	}); err != nil {
		return err
	}
	f.Random = in.figure()
	scan := func(i int) int64 { return int64(i) * scanBytes % (r.Size() / scanBytes * scanBytes) }
	for _, x := range []struct {
		to     *benchFigure
		access func(i int) (int, error)
	}{
		{&f.RandomWrite, func(int) (int, error) { return r.WriteAt(page, at()) }},
		{&f.Sequential, func(i int) (int, error) { return r.ReadAt(buf, scan(i)) }},
		{&f.SequentialWrite, func(i int) (int, error) { return r.WriteAt(buf, scan(i)) }},
	} {
		m := newMeter()
		if err := b.each(ctx, m, func(i int) error {
			begin := time.Now()
			n, err := x.access(i)
			m.add(time.Since(begin), n)
			return err
		}); err != nil {
			return err
		}
		*x.to = m.figure()
	}
	return nil
}

// writeFigures prints figures.
func writeFigures(w io.Writer, f benchFigures) error {
	fmt.Fprintf(w, "%s of memory, %s of it local\n", cli.Bytes(f.Size), cli.Bytes(f.Local))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ACCESS\tCOUNT\tP50\tP99\tBIT/S")
	for _, x := range []struct {
		name string
		f    benchFigure
	}{
		{"READ of 4 KiB", f.Read}, {"page out", f.PageOut}, {"page in, random", f.Random}, {"write of a page, random", f.RandomWrite},
		{"read of 64 KiB, sequential", f.Sequential}, {"write of 64 KiB, sequential", f.SequentialWrite},
	} {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", x.name, x.f.Count, cli.Nanos(x.f.P50), cli.Nanos(x.f.P99), cli.Rate(x.f.Rate))
	}
	return t.Flush()
}
