// SPDX-License-Identifier: Apache-2.0

package rates

// The files precredit_*.go measure what pre-credit (S5) does to messages on real interfaces:
// several hosts send small and large ones to one, through a switch whose port there is
// the bottleneck.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Load is what each sender does.
type Load struct {
	Small, Large int           // bytes of a message
	SmallEvery   time.Duration // mean pause between small messages, 0 = none are sent
	LargeEvery   time.Duration // mean pause between large ones; negative: none are sent
	Length       time.Duration
	Seed         uint64
}

// Times are how long messages took from post to completion.
type Times []time.Duration

// Quantile is the value below which the part q lies. The times must be sorted.
func (t Times) Quantile(q float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[min(int(q*float64(len(t))), len(t)-1)]
}

// Within is the part that took at most d.
func (t Times) Within(d time.Duration) float64 {
	n := 0
	for _, x := range t {
		if x <= d {
			n++
		}
	}
	return float64(n) / float64(max(len(t), 1))
}

// PrecreditResult is what a run saw.
type PrecreditResult struct {
	Small, Large Times // sorted
	Elapsed      time.Duration
	LargeBytes   uint64
	Drops        uint64 // packets that the switch dropped
	Again        uint64 // packets that senders sent again
	Paid         uint64 // bytes on pre-credit
	Withheld     uint64
}

// sender is one host's end.
type sender struct {
	dev          *nic.Device
	small, large *stream
}

// stream is a queue pair with the memory behind it at both ends.
type stream struct {
	qp, peer verbs.QP
	cq, far  verbs.CQ
	local    verbs.MR
	remote   verbs.MR
	op       verbs.Op
}

func newStream(from, to *engines.Host, size int) (*stream, error) {
	s := &stream{op: verbs.OpWrite}
	end := func(h *engines.Host) (x verbs.QP, cq verbs.CQ, m verbs.MR, err error) {
		pd, err := h.Dev.AllocPD()
		if err != nil {
			return nil, nil, nil, err
		}
		if m, err = pd.RegMR(make([]byte, size), engines.Access); err != nil {
			return nil, nil, nil, err
		}
		if cq, err = h.Dev.CreateCQ(64); err != nil {
			return nil, nil, nil, err
		}
		x, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
		return x, cq, m, err
	}
	var err error
	if s.qp, s.cq, s.local, err = end(from); err != nil {
		return nil, err
	}
	if s.peer, s.far, s.remote, err = end(to); err != nil {
		return nil, err
	}
	return s, engines.Connect(s.qp, s.peer, from.IPv4(), to.IPv4(), rocev2.PMTU1024)
}

// send moves n bytes and returns how long that took.
func (s *stream) send(ctx context.Context, n int) (time.Duration, error) {
	start := time.Now()
	if err := s.post(n); err != nil {
		return 0, err
	}
	if err := s.wait(ctx); err != nil {
		return 0, fmt.Errorf("a message of %d bytes: %w", n, err)
	}
	return time.Since(start), nil
}

func (s *stream) post(n int) error {
	return s.qp.PostSend(&verbs.SendWR{
		Op: s.op, Flags: verbs.Signaled, RemoteAddr: s.remote.VA(), RKey: s.remote.RKey(),
		SGL: []verbs.SGE{{Addr: s.local.VA(), Len: uint32(n), LKey: s.local.LKey()}},
	})
}

// wait waits for the completion of one message.
func (s *stream) wait(ctx context.Context) error {
	var out [1]verbs.Completion
	for s.cq.Poll(out[:]) == 0 {
		if err := s.cq.Wait(ctx, false); err != nil {
			return err
		}
	}
	if out[0].Status != verbs.StatusSuccess {
		return fmt.Errorf("completed with %s", out[0].Status)
	}
	return nil
}

// incast is senders and one receiver with engines open and queue pairs connected.
type incast struct {
	hosts   []*engines.Host // the receiver first
	senders []*sender
	queue   *twoQueues
}

// open opens the engines and waits until everybody knows what the others understand.
func open(hosts []*engines.Host, q *twoQueues, o nic.Options, l Load) (_ *incast, err error) {
	c := &incast{hosts: hosts, queue: q}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	for _, h := range hosts {
		if _, err := h.Open(o); err != nil {
			return nil, err
		}
	}
	for _, h := range hosts[1:] {
		s := &sender{dev: h.Dev}
		if s.small, err = newStream(h, hosts[0], max(l.Small, 1)); err != nil {
			return nil, err
		}
		if s.large, err = newStream(h, hosts[0], max(l.Large, 1)); err != nil {
			return nil, err
		}
		c.senders = append(c.senders, s)
	}
	known := "tx_stamped"
	if o.PreCredit {
		known = "precredit_used"
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, s := range c.senders {
		for counter(s.dev, known) == 0 {
			if _, err := s.small.send(ctx, l.Small); err != nil {
				return nil, fmt.Errorf("wait for %s: %w", known, err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return c, nil
}

func (c *incast) close() error { return engines.Close(c.hosts) }

func counter(d *nic.Device, name string) uint64 {
	for _, c := range d.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	panic("no counter " + name)
}

// show is what all have counted.
func (c *incast) show() string {
	var b strings.Builder
	for _, h := range c.hosts {
		for _, k := range h.Dev.Counters() {
			if k.Value > 0 {
				fmt.Fprintf(&b, "%s: %s %d\n", h.Name(), k.Name, k.Value)
			}
		}
		out, err := h.Product("table", topo.IfName, "--json")
		fmt.Fprintln(&b, out, err)
	}
	return b.String()
}

func (c *incast) sum(name string) (n uint64) {
	for _, s := range c.senders {
		n += counter(s.dev, name)
	}
	return n
}

// measure has all senders work for the load's length, the first tenth of which warms up, and until each has a message
// that counts: a machine that stands still may have none in that time.
func (c *incast) measure(l Load) (r PrecreditResult, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.Length+patience)
	defer cancel()
	before, err := c.counted()
	if err != nil {
		return r, err
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	begin := time.Now()
	warm, end := begin.Add(l.Length/10), begin.Add(l.Length)
	run := func(s *stream, n int, every time.Duration, rnd *rand.Rand, times *Times) {
		defer wg.Done()
		var mine Times
		for {
			if every > 0 {
				time.Sleep(time.Duration(rnd.ExpFloat64() * float64(every)))
			}
			start := time.Now()
			if start.After(end) && len(mine) > 0 {
				break
			}
			d, err := s.send(ctx, n)
			if err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
				break
			}
			if start.After(warm) {
				mine = append(mine, d)
			}
		}
		mu.Lock()
		*times = append(*times, mine...)
		mu.Unlock()
	}
	for i, s := range c.senders {
		if l.SmallEvery > 0 {
			wg.Add(1)
			go run(s.small, l.Small, l.SmallEvery, rand.New(rand.NewPCG(l.Seed, uint64(2*i))), &r.Small)
		}
		if l.LargeEvery >= 0 {
			wg.Add(1)
			go run(s.large, l.Large, l.LargeEvery, rand.New(rand.NewPCG(l.Seed, uint64(2*i+1))), &r.Large)
		}
	}
	wg.Wait()
	r.Elapsed = end.Sub(warm)
	slices.Sort(r.Small)
	slices.Sort(r.Large)
	r.LargeBytes = uint64(len(r.Large)) * uint64(l.Large)
	return c.count(r, before, errors.Join(errs...))
}

// burst has all senders write a large message at the same moment, n times after a
// pause. Result.Large is how long it took until the last was complete.
func (c *incast) burst(n, size int, pause time.Duration) (r PrecreditResult, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	before, err := c.counted()
	if err != nil {
		return r, err
	}
	for range n {
		time.Sleep(pause)
		var wg sync.WaitGroup
		errs := make([]error, len(c.senders))
		start := time.Now()
		for i, s := range c.senders {
			wg.Go(func() { _, errs[i] = s.large.send(ctx, size) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return r, err
		}
		r.Large = append(r.Large, time.Since(start))
		r.Elapsed += time.Since(start)
		r.LargeBytes += uint64(size * len(c.senders))
	}
	slices.Sort(r.Large)
	return c.count(r, before, nil)
}

// counted is what counters say by now.
func (c *incast) counted() (r PrecreditResult, err error) {
	r = PrecreditResult{Again: c.sum("tx_retransmits"), Paid: c.sum("precredit_used"), Withheld: c.sum("precredit_blocked")}
	r.Drops, err = c.queue.drops()
	return r, err
}

// count puts into a result what was counted since before.
func (c *incast) count(r, before PrecreditResult, err error) (PrecreditResult, error) {
	now, e := c.counted()
	r.Drops, r.Again = now.Drops-before.Drops, now.Again-before.Again
	r.Paid, r.Withheld = now.Paid-before.Paid, now.Withheld-before.Withheld
	return r, errors.Join(err, e)
}
