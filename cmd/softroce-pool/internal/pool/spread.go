// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/internal/texts"
	"github.com/softroce/softroce-xdp/mempool/directory"
	"github.com/softroce/softroce-xdp/mempool/pages"
	"github.com/softroce/softroce-xdp/mempool/spread"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// spreader is a node that leases memory of all servers of a directory and, with Check, uses it.
type spreader struct {
	Device    verbs.Device
	Directory directory.Directory
	Config    spread.Config
	Timeout   time.Duration // longest wait for the first connections
	Count     uint64        // periods; 0 for no end
	Check     bool          // write pages, and compare what is read back
	JSON      bool
	Out       io.Writer

	printing sync.Mutex // guard of Out: connections report by goroutines of their own
}

// spreadLine is what spreader prints in each period, with JSON.
type spreadLine struct {
	Period  uint64 `json:"period"`
	Checked int    `json:"checked_pages"`
	Lost    int    `json:"lost_pages"`    // pages that were written, and had no copy any more
	NoRoom  int    `json:"no_room_pages"` // pages that could not be written
	spread.Status
}

const pageBytes = 4096

// checker writes pages and compares what it reads back.
type checker struct {
	*spread.Store
	data    []byte
	written map[int64]uint64 // the period of the last WRITE of each page
}

// Run joins the servers, and leaves them when ctx ends or after Count periods.
func (j *spreader) Run(ctx context.Context) error {
	j.Config.PageBytes = pageBytes
	j.Config.Report = j.report
	opening, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	s, err := spread.Open(opening, j.Device, j.Directory, j.Config)
	if err != nil {
		return err
	}
	c := checker{Store: s, written: map[int64]uint64{}}
	if c.data, err = s.AllocBuffers(pageBytes); err != nil {
		return errors.Join(err, s.Close())
	}
	return errors.Join(unlessInterrupted(ctx, j.use(ctx, &c)), s.Leave())
}

// unlessInterrupted leaves out the error of a context that has ended: the user wanted it.
func unlessInterrupted(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		return nil
	}
	return err
}

// report prints what happens to the connections.
func (j *spreader) report(server string, err error) {
	j.printing.Lock()
	defer j.printing.Unlock()
	switch {
	case j.JSON:
	case err != nil:
		fmt.Fprintln(j.Out, err)
	case server == "":
		fmt.Fprintln(j.Out, "the directory answers again")
	default:
		fmt.Fprintf(j.Out, "joined server %s as %s\n", server, j.Config.Name)
	}
}

func (j *spreader) use(ctx context.Context, c *checker) error {
	for period := uint64(1); ; period++ {
		line := spreadLine{Period: period}
		if j.Check {
			if err := c.check(ctx, &line, int64(j.Config.Demand/pageBytes)); err != nil {
				return err
			}
		}
		line.Status = c.Status()
		if err := j.print(line); err != nil {
			return err
		}
		if period == j.Count {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(j.Config.Period):
		}
	}
}

// check reads what earlier periods have written, writes all pages, and reads them.
func (c *checker) check(ctx context.Context, line *spreadLine, count int64) error {
	for _, write := range []bool{false, true} {
		for number := range count {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			err := c.page(number, line.Period, write)
			switch {
			case err == nil && write:
				line.Checked++
			case err == nil:
			case errors.Is(err, pages.ErrNoRoom), errors.Is(err, spread.ErrNoServer):
				line.NoRoom++
			case errors.Is(err, errData):
				return err
			default: // it is lost, or its server is going
				line.Lost++
				delete(c.written, number)
			}
		}
	}
	return nil
}

// page compares a page with what was written, or writes it before.
func (c *checker) page(number int64, period uint64, write bool) error {
	if write {
		delete(c.written, number) // not known, if it fails
		fill(c.data, uint32(period), 0, uint64(number))
		if err := c.access(c.WritePages, number); err != nil {
			return err
		}
		c.written[number] = period
	}
	last, ok := c.written[number]
	if !ok {
		return nil
	}
	clear(c.data)
	if err := c.access(c.ReadPages, number); err != nil {
		return err
	}
	want := make([]byte, pageBytes)
	if fill(want, uint32(last), 0, uint64(number)); string(c.data) != string(want) {
		return fmt.Errorf("page %d: %w", number, errData)
	}
	return nil
}

func (c *checker) access(start func([]vmm.Request), number int64) error {
	done := make(chan error, 1)
	start([]vmm.Request{{Page: number, Data: c.data, Done: func(err error) { done <- err }}})
	return <-done
}

func (j *spreader) print(l spreadLine) error {
	j.printing.Lock()
	defer j.printing.Unlock()
	if j.JSON {
		return json.NewEncoder(j.Out).Encode(l)
	}
	connected, leased := []string{}, uint64(0)
	for _, s := range l.Servers {
		if s.Connected {
			connected = append(connected, s.Name)
			leased += s.Leased
		}
	}
	_, err := fmt.Fprintf(j.Out, "period %d: %s leased at %s, %d pages checked, %d lost, %d without room, %d with one copy\n", l.Period,
		cli.Bytes(leased), strings.Join(connected, " "), l.Checked, l.Lost, l.NoRoom, l.Single)
	return err
}

// writeServers prints the servers of a directory.
func writeServers(w io.Writer, list []directory.Server) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no servers")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVER\tADDRESS\tBYTES\tFREE\tNODES")
	for _, s := range list {
		bytes := func(slabs int) string { return cli.Bytes(uint64(slabs) * s.SlabBytes) }
		var nodes []string
		for _, n := range s.Nodes {
			nodes = append(nodes, texts.Printable(n.Name)+" "+bytes(n.Slabs))
		}
		slices.Sort(nodes)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", texts.Printable(s.Name), texts.Printable(s.Address), bytes(s.Slabs), bytes(s.Free), strings.Join(nodes, ", "))
	}
	return t.Flush()
}
