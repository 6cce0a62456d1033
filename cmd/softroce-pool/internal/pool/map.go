// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	"github.com/softroce/softroce-xdp/mempool/vmm/exercise"
)

// mapTable does the work of package exercise on a map, and prints a line for each step.
type mapTable struct {
	Map  *vmm.Map
	Out  io.Writer
	JSON bool

	last vmm.Stats
	head bool
}

// mapLine is what mapTable prints at the end of each step, with JSON.
type mapLine struct {
	exercise.Step
	Read       uint64 `json:"read_pages"`       // pages read from the pool, for an access
	Prefetched uint64 `json:"prefetched_pages"` // pages read from the pool, in advance
	Written    uint64 `json:"written_pages"`    // pages written to the pool
	Local      int    `json:"local_pages"`      // pages in local memory at the end
	Stored     int    `json:"stored_pages"`     // pages in the pool at the end
}

// Exercise does the work. A page that cannot be had is a *vmm.PageError.
func (t *mapTable) Exercise(ctx context.Context, c exercise.Config) (err error) {
	if t.last, err = t.Map.Stats(); err != nil {
		return err
	}
	lost := vmm.Try(func() { _, err = exercise.Run(ctx, t.Map.Bytes(), c, t.step) })
	return errors.Join(lost, err)
}

func (t *mapTable) step(s exercise.Step) error {
	now, err := t.Map.Stats()
	if err != nil {
		return err
	}
	line := mapLine{
		Step: s, Read: now.PageIns - t.last.PageIns, Prefetched: now.Prefetched - t.last.Prefetched, Written: now.PageOuts - t.last.PageOuts,
		Local: now.Resident, Stored: now.Stored,
	}
	t.last = now
	if t.JSON {
		return json.NewEncoder(t.Out).Encode(line)
	}
	return t.print(line)
}

func (t *mapTable) print(l mapLine) error {
	const columns = "%-7s %9s %10s %9s %10s %9s %9s %9s %9s %9s\n"
	if !t.head {
		t.head = true
		fmt.Fprintf(t.Out, columns, "STEP", "TOOK", "BIT/S", "READ", "PREFETCHED", "WRITTEN", "LOCAL", "PAGE-INS", "P50", "P99")
	}
	ins, p50, p99 := "-", "-", "-"
	if i := l.PageIns; i != nil {
		ins, p50, p99 = fmt.Sprint(i.Count), cli.Nanos(i.P50), cli.Nanos(i.P99)
	}
	pages := func(n uint64) string { return cli.Bytes(n * vmm.PageSize) }
	_, err := fmt.Fprintf(t.Out, columns, l.Name, l.Took.Round(time.Millisecond), cli.Rate(uint64(8*l.Rate())), pages(l.Read), pages(l.Prefetched), pages(l.Written),
		pages(uint64(l.Local)), ins, p50, p99)
	if l.Hash != "" {
		_, err = fmt.Fprintf(t.Out, "sha256 %s: as it was written\n", l.Hash)
	}
	return err
}
