// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// errData: a page that was read is not what was written to it.
var errData = errors.New("wrong data")

// joiner is a node that leases memory and, with Check, uses it.
type joiner struct {
	Device  verbs.Device
	Server  string // "host:port"
	Node    node.Config
	Timeout time.Duration // longest wait for a connection
	Count   uint64        // periods; 0 for no end
	Check   bool          // write each page of the lease, and compare what is read back
	JSON    bool
	Out     io.Writer

	Joined func(*node.Node) // called for each connection; nil for nobody
}

// joinLine is what joiner prints at the start of each period, with JSON.
type joinLine struct {
	Period   uint32 `json:"period"`
	Slabs    int    `json:"slabs"`
	Leased   uint64 `json:"leased_bytes"`
	Returned uint64 `json:"returned_bytes"`
	Checked  uint64 `json:"checked_bytes"`
}

// Run joins the pool, and leaves it when ctx ends or after Count periods. A node that the server has
// removed ends without an error. A connection that was lost is made again, while the server keeps the
// lease.
func (j *joiner) Run(ctx context.Context) error {
	n, err := j.join(ctx)
	if err != nil {
		return err
	}
	for periods := uint64(0); ; {
		err := j.use(ctx, n, &periods)
		if withConnection(err) {
			select {
			case <-n.Done(): // with the reason
			case <-ctx.Done(): // the access was interrupted, and the connection goes on
			}
		}
		switch {
		case err == nil, ctx.Err() != nil:
			leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.Timeout)
			defer cancel()
			return n.Leave(leaving)
		case errors.Is(n.Err(), node.ErrRemoved):
			fmt.Fprintln(j.text(), "the server has ended the lease")
			return n.Close()
		case n.Err() == nil:
			return errors.Join(err, n.Close())
		}
		fmt.Fprintln(j.text(), err)
		if n, err = j.again(ctx, n); err != nil {
			return err
		}
	}
}

// withConnection reports whether an access failed because the connection ends, which may be seen a little later.
func withConnection(err error) bool {
	var failed *rdma.Error
	return errors.As(err, &failed) || errors.Is(err, rdma.ErrPeerClosed) || errors.Is(err, node.ErrRemoved)
}

// text is where lines for people go.
func (j *joiner) text() io.Writer {
	if j.JSON {
		return io.Discard
	}
	return j.Out
}

func (j *joiner) join(ctx context.Context) (*node.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	n, err := node.Join(ctx, j.Device, j.Server, j.Node)
	if err == nil {
		if j.Joined != nil {
			j.Joined(n)
		}
		fmt.Fprintf(j.text(), "joined the pool of %s as %s\n", n.RemoteAddr(), j.Node.Name)
	}
	return n, err
}

// again joins with the ticket of a connection that has ended, until the server no longer keeps its lease.
func (j *joiner) again(ctx context.Context, old *node.Node) (*node.Node, error) {
	_ = old.Close() // it has ended
	j.Node.Ticket = old.Ticket()
	for end := time.Now().Add(old.Hold()); ; {
		n, err := j.join(ctx)
		if err == nil {
			if n.Resumed() {
				fmt.Fprintln(j.text(), "the data in the pool is still there")
			} else {
				fmt.Fprintln(j.text(), "the data that was in the pool is lost")
			}
			return n, nil
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return nil, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// use uses the leases of a connection until it ends, ctx does, or Count periods have passed (nil).
func (j *joiner) use(ctx context.Context, n *node.Node, periods *uint64) error {
	for last := uint32(0); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-n.Done():
			return n.Err()
		case <-n.Changed():
		}
		l := n.Lease()
		if l.Period == last {
			continue
		}
		last = l.Period
		line, err := j.period(ctx, n, l)
		if err != nil {
			return err
		}
		if err := j.print(line); err != nil {
			return err
		}
		if *periods++; *periods == j.Count {
			return nil
		}
	}
}

func (j *joiner) print(l joinLine) error {
	if j.JSON {
		return json.NewEncoder(j.Out).Encode(l)
	}
	_, err := fmt.Fprintf(j.Out, "period %d: %s leased in %d slabs, %s returned, %s checked\n", l.Period, cli.Bytes(l.Leased), l.Slabs,
		cli.Bytes(l.Returned), cli.Bytes(l.Checked))
	return err
}

// period returns what is to be returned, and checks the rest.
func (j *joiner) period(ctx context.Context, n *node.Node, l node.Lease) (line joinLine, err error) {
	line = joinLine{Period: l.Period, Leased: l.Bytes()}
	for _, s := range l.Slabs {
		if !s.Return.IsZero() {
			line.Returned += s.Remote.Len
			if err := n.Return(ctx, s.Number); err != nil {
				return line, err
			}
			continue
		}
		line.Slabs++
		if !j.Check {
			continue
		}
		err := checkSlab(ctx, n, s, l.Period)
		if errors.Is(err, node.ErrNotLeased) {
			continue // a later lease has taken it back
		}
		if err != nil {
			return line, err
		}
		line.Checked += s.Remote.Len
	}
	return line, nil
}

// checkSlab writes a slab, and compares what it reads back.
func checkSlab(ctx context.Context, n *node.Node, s node.Slab, period uint32) error {
	page := make([]byte, node.PageBytes)
	for at := uint64(0); at < s.Remote.Len; at += node.PageBytes {
		fill(page, period, s.Number, at)
		if err := n.Write(ctx, s.Number, at, page); err != nil {
			return err
		}
	}
	want := make([]byte, node.PageBytes)
	for at := uint64(0); at < s.Remote.Len; at += node.PageBytes {
		if err := n.Read(ctx, s.Number, at, page); err != nil {
			return err
		}
		if fill(want, period, s.Number, at); string(page) != string(want) {
			return fmt.Errorf("slab %d, offset %d: %w", s.Number, at, errData)
		}
	}
	return nil
}

// fill fills a page with bytes that depend on period, slab and offset.
func fill(page []byte, period, slab uint32, offset uint64) {
	x := uint64(period)<<32 ^ uint64(slab)<<20 ^ offset
	for i := 0; i < len(page); i += 8 {
		x = x*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(page[i:], x)
	}
}
