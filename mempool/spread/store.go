// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/mempool/directory"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/pages"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Config are the properties of a Store.
type Config struct {
	Name      string        // name of the node, unique in the pool: see node.Config
	Period    time.Duration // time from one lease to the next
	Demand    uint64        // bytes that the node wants to store at least; with a mirror, it leases twice of it
	Mirror    bool          // each page is on two servers
	PageBytes int           // size of a page, see pages.Config; 0 for 4096

	Options []rdma.Option // options of the connections

	// Report is called when a server was joined (err is nil), cannot be joined, or is gone, by any goroutine;
	// nil for nobody. With server "", the directory does not answer, or answers again (err is nil).
	Report func(server string, err error)

	// Joined is called for each connection, by any goroutine; nil for nobody.
	Joined func(*node.Node)
}

const (
	// followTime is how often the directory is asked.
	followTime = time.Second
	// answerTime is how long the directory and a server have to answer.
	answerTime = 10 * time.Second
	// retryTime is when a server that cannot be joined is tried again.
	retryTime = 2 * time.Second
	// shortest is the shortest time from one tick to the next.
	shortest = 5 * time.Millisecond
)

// Errors of Open.
var (
	ErrEmpty  = errors.New("the directory has no server: run `softroce-pool serve --directory` with its URL")
	ErrMirror = errors.New("a mirror needs two servers")
)

// Store keeps pages on the servers of a directory. Any goroutine may call its methods.
type Store struct {
	dev    verbs.Device
	d      directory.Directory
	c      Config
	began  time.Time
	cancel context.CancelFunc
	all    sync.WaitGroup
	wake   chan struct{}
	leave  bool // the node leaves at the end

	mu     sync.Mutex // guards the fields below
	table  *table
	links  map[string]*link // links by the name of their server
	served map[string]bool  // servers that have a goroutine
	// tickets are those of the newest connection to each server. Its entry may expire and come back.
	tickets map[string]node.Ticket
	listed  []directory.Server
	ops     map[uint64]request
	lastOp  uint64
	flying  map[uint64]flight // flights by transfer
	copied  map[int64][]byte  // pages that are repaired
	closed  bool
	buffers

	directoryError string // "": it answers
}

// request is a request of the user.
type request struct {
	vmm.Request
	write bool
}

// flight is a transfer in flight.
type flight struct {
	link   *link
	bounce []byte // nil: the data is in memory of the user, or of a repair
	repair bool
	write  bool
	page   int64
}

// continuedBy reports whether an action is the WRITE of a repair that has read its page.
func (f flight) continuedBy(a action) bool {
	return a.kind == actWrite && a.op == 0 && a.page == f.page
}

// Open joins the servers of a directory. It returns when one of them was joined, and with a mirror two.
func Open(ctx context.Context, dev verbs.Device, d directory.Directory, c Config) (*Store, error) {
	if c.Report == nil {
		c.Report = func(string, error) {}
	}
	if c.Joined == nil {
		c.Joined = func(*node.Node) {}
	}
	if c.PageBytes == 0 {
		c.PageBytes = 4096
	}
	copies := 1
	if c.Mirror {
		copies = 2
	}
	list, err := ask(ctx, d)
	switch {
	case err != nil:
		return nil, fmt.Errorf("pool: %w", err)
	case len(list) == 0:
		return nil, fmt.Errorf("pool: %w", ErrEmpty)
	case len(list) < copies:
		return nil, fmt.Errorf("pool: %w, and the directory has %s alone", ErrMirror, list[0].Name)
	}
	running, cancel := context.WithCancel(context.Background())
	s := &Store{
		dev: dev, d: d, c: c, began: time.Now(), cancel: cancel, wake: make(chan struct{}, 1), table: newTable(copies), links: map[string]*link{}, served: map[string]bool{},
		tickets: map[string]node.Ticket{}, listed: list, ops: map[uint64]request{}, flying: map[uint64]flight{}, copied: map[int64][]byte{},
	}
	s.buffers = buffers{dev: dev, pageBytes: c.PageBytes}
	if err := s.joinFirst(ctx, running, copies); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.all.Go(func() { s.follow(running) })
	s.all.Go(func() { s.keepTime(running) })
	return s, nil
}

func ask(ctx context.Context, d directory.Directory) ([]directory.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return d.Servers(ctx)
}

// joinFirst waits until enough servers were joined, or none is left to try.
func (s *Store) joinFirst(ctx, running context.Context, enough int) error {
	results := make(chan error, len(s.listed))
	for _, server := range s.listed {
		s.begin(running, server, results)
	}
	var failed []error
	for joined := 0; joined < enough; {
		if len(s.listed)-len(failed) < enough {
			return fmt.Errorf("pool: %w", errors.Join(failed...))
		}
		select {
		case err := <-results:
			if err != nil {
				failed = append(failed, err)
				continue
			}
			joined++
		case <-ctx.Done():
			return fmt.Errorf("pool: no lease: %w", errors.Join(append(failed, ctx.Err())...))
		}
	}
	return nil
}

var (
	_ vmm.Store     = (*Store)(nil)
	_ vmm.Allocator = (*Store)(nil)
)

func (s *Store) now() time.Duration { return time.Since(s.began) }

// ReadPages implements vmm.Store. Data is in memory of AllocBuffers. Errors are those of package pages, or of the
// connection.
func (s *Store) ReadPages(list []vmm.Request) { s.start(false, list) }

// WritePages implements vmm.Store.
func (s *Store) WritePages(list []vmm.Request) { s.start(true, list) }

func (s *Store) start(write bool, list []vmm.Request) {
	for _, r := range list {
		if len(r.Data) != s.c.PageBytes {
			r.Done(fmt.Errorf("spread: page %d: %d bytes of data, and pages have %d", r.Page, len(r.Data), s.c.PageBytes))
			continue
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			r.Done(context.Canceled)
			continue
		}
		s.lastOp++
		s.ops[s.lastOp] = request{r, write}
		actions := s.table.begin(s.now(), s.lastOp, r.Page, write)
		s.mu.Unlock()
		s.execute(actions)
	}
}

// change has the table take something, and executes what follows.
func (s *Store) change(f func(t *table, now time.Duration) []action) {
	s.mu.Lock()
	actions := f(s.table, s.now())
	s.mu.Unlock()
	s.execute(actions)
}

func (s *Store) execute(list []action) {
	for _, a := range list {
		switch a.kind {
		case actFinish:
			s.finish(a, nil)
		case actForget:
			if l := s.link(a.server); l != nil {
				l.pages.Forget(a.page)
			}
		default:
			s.transfer(a)
		}
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Store) link(server string) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links[server]
}

// finish completes a request. The data of a READ is in a buffer, or where it belongs.
func (s *Store) finish(a action, data []byte) {
	s.mu.Lock()
	r := s.ops[a.op]
	delete(s.ops, a.op)
	s.mu.Unlock()
	if a.err == nil && data != nil && !r.write {
		copy(r.Data, data)
	}
	err := a.err
	if err != nil {
		err = fmt.Errorf("spread: page %d: %w", a.page, err)
	}
	r.Done(err)
}

// transfer starts a READ or WRITE of one server. With a mirror, a READ goes to a buffer of its own: the server
// that is too late may write to it after the request was completed with the data of the other one.
func (s *Store) transfer(a action) {
	s.mu.Lock()
	f := flight{link: s.links[a.server], repair: a.op == 0, write: a.kind == actWrite, page: a.page}
	data, err := s.ops[a.op].Data, error(nil)
	switch {
	case f.repair && a.kind == actRead:
		data, err = s.take()
		s.copied[a.page] = data
	case f.repair:
		data = s.copied[a.page]
	case a.kind == actRead && s.c.Mirror:
		data, err = s.take()
		f.bounce = data
	}
	s.flying[a.transfer] = f
	s.mu.Unlock()
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %w", ErrNoRoom, err) // no memory: the server is not to blame
	case f.link == nil:
		err = ErrNoServer
	}
	if err != nil {
		s.done(a.transfer, err)
		return
	}
	list := []vmm.Request{{Page: a.page, Data: data, Done: func(err error) { s.done(a.transfer, err) }}}
	if a.kind == actRead {
		f.link.pages.ReadPages(list)
	} else {
		f.link.pages.WritePages(list)
	}
}

// done takes the end of a transfer.
func (s *Store) done(transfer uint64, err error) {
	s.mu.Lock()
	f := s.flying[transfer]
	delete(s.flying, transfer)
	if err == nil && f.write && !f.link.pages.Placed(f.page) {
		err = pages.ErrLost // the table was told before it knew of the copy
	}
	actions := s.table.done(s.now(), transfer, err)
	if f.repair && !slices.ContainsFunc(actions, f.continuedBy) {
		// Before others see that the repair has ended: the next one of the page brings a buffer of its own.
		s.put(s.copied[f.page])
		delete(s.copied, f.page)
	}
	broken := f.link != nil && s.table.server(f.link.name) == nil
	s.mu.Unlock()
	if broken {
		f.link.stop(err) // nothing uses the connection any more
	}
	rest := actions[:0:0]
	for _, a := range actions {
		if a.kind == actFinish && a.transfer == transfer && a.err == nil {
			s.finish(a, f.bounce)
			continue
		}
		rest = append(rest, a)
	}
	s.mu.Lock()
	s.put(f.bounce)
	s.mu.Unlock()
	s.execute(rest)
}

// keepTime does what is due.
func (s *Store) keepTime(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-t.C:
			s.change(func(x *table, now time.Duration) []action { return x.tick(now) })
		}
		s.mu.Lock()
		at, ok := s.table.next()
		s.mu.Unlock()
		if !ok {
			at = s.now() + time.Hour
		}
		t.Reset(max(at-s.now(), shortest))
	}
}

// follow follows the directory: servers that it lists are joined, and asked for their share.
func (s *Store) follow(ctx context.Context) {
	t := time.NewTicker(followTime)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		list, err := ask(ctx, s.d)
		if ctx.Err() != nil {
			return
		}
		if s.listing(list, err) {
			s.c.Report("", err)
		}
		for _, server := range s.known() {
			s.begin(ctx, server, nil)
		}
		s.demand()
	}
}

// listing takes an answer of the directory. True: it has begun or ceased to answer.
func (s *Store) listing(list []directory.Server, err error) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = (err == nil) != (s.directoryError == "")
	if s.directoryError = ""; err != nil {
		s.directoryError = err.Error()
		return changed
	}
	s.listed = list
	return changed
}

// known returns the servers that the directory has listed last.
func (s *Store) known() []directory.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.listed)
}

// demand asks each server for its share.
func (s *Store) demand() {
	for name, bytes := range s.shares("", false) {
		if l := s.link(name); l != nil {
			l.pages.SetDemand(bytes)
		}
	}
}

// shares returns what is wanted of each server that is joined, and of one that is being joined; with first, of
// all that are listed.
func (s *Store) shares(joining string, first bool) map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	var list []share
	for _, x := range s.listed {
		if first || x.Name == joining || s.links[x.Name] != nil {
			names, list = append(names, x.Name), append(list, share{free: x.FreeBytes()})
		}
	}
	for name := range s.links { // that are no longer listed
		if !slices.Contains(names, name) {
			names, list = append(names, name), append(list, share{})
		}
	}
	for i, name := range names {
		if l := s.links[name]; l != nil {
			list[i].leased = l.node.Lease().Bytes()
		}
		if x := s.table.server(name); x != nil {
			list[i].stored = uint64(x.stored) * uint64(s.c.PageBytes)
		}
	}
	total := max(s.c.Demand, uint64(s.table.wanted())*uint64(s.c.PageBytes)) * uint64(s.table.copies)
	out := map[string]uint64{}
	for i, bytes := range split(total, list, s.c.Mirror) {
		out[names[i]] = bytes
	}
	return out
}

// Leave gives all leases back, and closes the store.
func (s *Store) Leave() error {
	s.leave = true
	return s.Close()
}

// Close ends all connections. The servers keep the leases for a time.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free()
}
