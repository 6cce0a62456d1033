// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
)

// pair is queue pairs of two devices, connected one to one, with memory. Requests go
// from side 0 to side 1.
type pair struct {
	devs  [2]verbs.Device
	pd    [2]verbs.PD
	cq    [2]verbs.CQ
	mem   [2][]byte
	mr    [2]verbs.MR
	local verbs.SGE // SGE at the begin of mem[0]
	va    uint64    // address of mem[1], for side 0
	rkey  uint32
	qps   [2][]verbs.QP
	each  []uint64 // messages of each queue pair that run has counted, or nil
	batch [256]verbs.Completion
	wr    verbs.SendWR
	sgl   [1]verbs.SGE
}

// reads is how many READs are outstanding on a queue pair. Those of 4 KB need more
// than the 16 that are usual to fill the link.
const reads = 64

// pairSpec says what to connect.
type pairSpec struct {
	qps    int
	depth  int // work requests of a queue
	memory int // bytes on each side, shared by all
	pmtu   rocev2.PMTU
	cq     int  // completions; 0 means all that may be outstanding
	sealed bool // encrypted with AES-128-GCM
}

func newPair[D verbs.Device](devs [2]D, addrs [2]netip.Addr, s pairSpec) (_ *pair, err error) {
	p := &pair{devs: [2]verbs.Device{devs[0], devs[1]}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if s.cq == 0 {
		s.cq = s.qps * s.depth * 2
	}
	for i, d := range p.devs {
		if p.pd[i], err = d.AllocPD(); err != nil {
			return nil, err
		}
		if p.mem[i], err = allocate(d, s.memory); err != nil {
			return nil, err
		}
		if p.mr[i], err = p.pd[i].RegMR(p.mem[i], engines.Access); err != nil {
			return nil, err
		}
		if p.cq[i], err = d.CreateCQ(s.cq); err != nil {
			return nil, err
		}
	}
	// As an application does, once: a region takes a lock to tell its key and its address.
	p.local = verbs.SGE{Addr: p.mr[0].VA(), LKey: p.mr[0].LKey()}
	p.va, p.rkey = p.mr[1].VA(), p.mr[1].RKey()
	for range s.qps {
		if err := p.add(addrs, s); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// allocator is a device with memory of its own: that of a device server.
type allocator interface{ Alloc(n int) ([]byte, error) }

func allocate(d verbs.Device, n int) ([]byte, error) {
	if a, ok := d.(allocator); ok {
		return a.Alloc(n)
	}
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
}

// add connects one more queue pair of each side.
func (p *pair) add(addrs [2]netip.Addr, s pairSpec) error {
	for i := range p.devs {
		x, err := p.pd[i].CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: p.cq[i], RecvCQ: p.cq[i], MaxSend: s.depth, MaxRecv: 2 * s.depth})
		if err != nil {
			return err
		}
		p.qps[i] = append(p.qps[i], x)
	}
	n := len(p.qps[0]) - 1
	if s.sealed {
		if err := encrypt(p.qps[0][n], p.qps[1][n]); err != nil {
			return err
		}
	}
	return engines.ConnectAttr(p.qps[0][n], p.qps[1][n], addrs[0], addrs[1], func(a *verbs.Attr) {
		a.PMTU, a.MaxRdAtomic, a.MaxDestRdAtomic = s.pmtu, reads, reads
	})
}

func (p *pair) close() error {
	var errs []error
	for i := range p.devs {
		for _, x := range p.qps[i] {
			errs = append(errs, x.Destroy())
		}
		if p.cq[i] != nil {
			errs = append(errs, p.cq[i].Destroy())
		}
		if p.mr[i] != nil {
			errs = append(errs, p.mr[i].Deregister())
		}
		if _, ok := p.devs[i].(allocator); p.mem[i] != nil && !ok {
			errs = append(errs, unix.Munmap(p.mem[i]))
		}
		if p.pd[i] != nil {
			errs = append(errs, p.pd[i].Free())
		}
	}
	return errors.Join(errs...)
}

// post posts a message of n bytes on queue pair i, from and to the place off in the
// memories.
func (p *pair) post(i int, op verbs.Op, off, n int) error {
	p.sgl[0] = verbs.SGE{Addr: p.local.Addr + uint64(off), Len: uint32(n), LKey: p.local.LKey}
	p.wr = verbs.SendWR{ID: uint64(i), Op: op, Flags: verbs.Signaled, SGL: p.sgl[:], RemoteAddr: p.va + uint64(off), RKey: p.rkey}
	return p.qps[0][i].PostSend(&p.wr)
}

// patience is when a message is given up, and slowest how long it may take until there are
// as many as a stream counts at least.
const (
	patience = 5 * time.Second
	slowest  = 2 * time.Minute
)

// wait returns completions of side i, at least one. Spinning it never sleeps.
func (p *pair) wait(ctx context.Context, i int, out []verbs.Completion, spin bool) (n int, err error) {
	if n = p.cq[i].Poll(out); n > 0 {
		return n, check(out[:n])
	}
	if !spin {
		if err := p.cq[i].Wait(ctx, false); err != nil {
			return 0, err
		}
		n = p.cq[i].Poll(out)
		return n, check(out[:n])
	}
	for start, k := time.Now(), 0; ; k++ {
		if n = p.cq[i].Poll(out); n > 0 {
			return n, check(out[:n])
		}
		if k&1023 == 1023 && time.Since(start) > patience {
			return 0, fmt.Errorf("no completion after %v", patience)
		}
	}
}

func check(done []verbs.Completion) error {
	for i := range done {
		if w := &done[i]; w.Status != verbs.StatusSuccess {
			return fmt.Errorf("queue pair %#x: %s", w.QPN, w.Status)
		}
	}
	return nil
}

// stream is messages in one direction.
type stream struct {
	op    verbs.Op
	size  int
	under int    // messages outstanding in all, spread over the queue pairs
	spin  bool   // the application does not sleep
	least uint64 // messages to be counted, however long that takes
}

// flow is what a stream carried.
type flow struct {
	messages uint64
	elapsed  time.Duration
	cpu      time.Duration // CPU time of the process
}

func (f flow) perSecond() float64 { return float64(f.messages) / f.elapsed.Seconds() }

// run keeps messages outstanding for a time, and counts those that completed in it.
// before and after are called where the measured time begins and ends.
func (p *pair) run(s stream, warm, length time.Duration, before, after func()) (f flow, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), warm+length+patience+slowest)
	defer cancel()
	serving := make(chan error, 1)
	if s.op == verbs.OpSend {
		stop, done := context.WithCancel(ctx)
		if err := p.supply(s.size); err != nil {
			done()
			return f, err
		}
		go func() { serving <- p.serve(stop, s.size) }()
		defer func() {
			done()
			err = errors.Join(err, <-serving)
		}()
	}
	places := max(1, len(p.mem[0])/s.size)
	posted, done := 0, 0
	free := make([]int, len(p.qps[0])) // room of each queue pair
	per := (s.under + len(free) - 1) / len(free)
	for i := range free {
		free[i] = per
	}
	start := time.Now()
	var from uint64
	measuring := false
	var cpu time.Duration
	next := 0
	for {
		now := time.Now()
		switch {
		case !measuring && now.Sub(start) >= warm:
			if before != nil {
				before()
			}
			measuring, start, from, cpu = true, time.Now(), uint64(done), compare.CPU()
		case measuring && now.Sub(start) >= length && uint64(done)-from >= s.least:
			f = flow{messages: uint64(done) - from, elapsed: now.Sub(start), cpu: compare.CPU() - cpu}
			if after != nil {
				after()
			}
			return f, p.drain(ctx, posted-done, s.spin)
		}
		for posted-done < s.under {
			for free[next] == 0 {
				next = (next + 1) % len(free)
			}
			if err := p.post(next, s.op, posted%places*s.size, s.size); errors.Is(err, verbs.ErrQueueFull) {
				break // its completion was seen before its room was made
			} else if err != nil {
				return f, err
			}
			free[next]--
			posted++
			next = (next + 1) % len(free)
		}
		if posted == done {
			continue
		}
		n, err := p.wait(ctx, 0, p.batch[:], s.spin)
		if err != nil {
			return f, err
		}
		for i := range n {
			free[p.batch[i].WRID]++
			if measuring && p.each != nil {
				p.each[p.batch[i].WRID]++
			}
		}
		done += n
	}
}

func (p *pair) drain(ctx context.Context, left int, spin bool) error {
	for left > 0 {
		n, err := p.wait(ctx, 0, p.batch[:], spin)
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// supply fills the receive queues, as far as they are not.
func (p *pair) supply(size int) error {
	for i, x := range p.qps[1] {
		for {
			err := x.PostRecv(p.recv(i, size))
			if errors.Is(err, verbs.ErrQueueFull) {
				break
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pair) recv(i, size int) *verbs.RecvWR {
	return &verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{{Addr: p.mr[1].VA(), Len: uint32(size), LKey: p.mr[1].LKey()}}}
}

// serve takes SENDs and posts receives again until ctx ends.
func (p *pair) serve(ctx context.Context, size int) error {
	var got [256]verbs.Completion
	wr := p.recv(0, size)
	for {
		n := p.cq[1].Poll(got[:])
		if err := check(got[:n]); err != nil {
			return err
		}
		for i := 0; i < n; {
			wr.ID = got[i].WRID
			err := p.qps[1][wr.ID].PostRecv(wr)
			if errors.Is(err, verbs.ErrQueueFull) && ctx.Err() == nil {
				continue // its completion was seen before its room was made
			}
			if err != nil && !errors.Is(err, verbs.ErrQueueFull) {
				return err
			}
			i++
		}
		if n == 0 && p.cq[1].Wait(ctx, false) != nil {
			if ctx.Err() != nil {
				return nil
			}
			return errors.New("the receiving device ended")
		}
	}
}

// counters are those of a device by name.
func counters(d *nic.Device) map[string]uint64 {
	m := map[string]uint64{}
	for _, c := range d.Counters() {
		m[c.Name] = c.Value
	}
	return m
}
