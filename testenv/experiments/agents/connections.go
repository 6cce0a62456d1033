// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Load is a number of connections to one listener.
type Load struct {
	Processes int // processes that dial
	Rounds    int // rounds of each process, one after the other
	Parallel  int // connections of a round
	Deadline  time.Duration
}

// Connections is their number.
func (l Load) Connections() int { return l.Processes * l.Rounds * l.Parallel }

func (l Load) String() string {
	return fmt.Sprintf("%d processes, %d rounds of %d connections at once", l.Processes, l.Rounds, l.Parallel)
}

// Result is what came of a load.
type Result struct {
	Load     Load
	Done     int // connections that succeeded, at the end that dials
	Accepted int // connections that the listener closed without an error
	Failed   int // connections that failed, at both ends
	Late     int // connections that took longer than their deadline
	Errors   []string
	Elapsed  time.Duration
	Slowest  time.Duration
	Parts    []Part // parts of the first process
}

// Part is a part of the rounds of a process that dials.
type Part struct {
	Done    int // connections, with those of earlier parts
	Elapsed time.Duration
	Slowest time.Duration
	Held    map[string]Held // objects at its end, by the names of Subjects
}

// Subjects are the processes that are measured.
var Subjects = []string{"agent that dials", "agent that listens", "program that dials", "program that listens"}

// Hosts are two hosts whose agents serve a device. Programs on the first one dial.
type Hosts struct {
	hosts   []*engines.Host
	agents  [2]int
	counter counter
}

// NewHosts returns two hosts with the product attached. bin is the binary that was attached.
func NewHosts(hosts []*engines.Host, bin string) (*Hosts, error) {
	c, err := newCounter(bin)
	if err != nil {
		return nil, err
	}
	h := &Hosts{hosts: hosts, counter: c}
	for i := range h.agents {
		st, err := loader.ReadState(hosts[i].LoaderOptions().RunDir, topo.IfName)
		if err != nil {
			return nil, err
		}
		h.agents[i] = st.AgentPID
	}
	return h, nil
}

// Agents returns what both agents hold.
func (h *Hosts) Agents() (held [2]Held, err error) {
	for i, pid := range h.agents {
		if held[i], err = heldBy(pid); err != nil {
			return held, err
		}
		if held[i].Goroutines, err = h.counter.count(pid); err != nil {
			return held, err
		}
	}
	return held, nil
}

// program is a process of a load.
type program struct {
	cmd *topo.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (h *Hosts) start(ctx context.Context, on int, t task) (*program, error) {
	t.RunDir = h.hosts[on].LoaderOptions().RunDir
	b, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	p := &program{cmd: h.hosts[on].CommandContext(ctx, "/proc/self/exe")}
	p.cmd.Env = append(os.Environ(), taskEnv+"="+string(b))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	return p, p.cmd.Start()
}

// line returns the next line of a program.
func (p *program) line() (string, error) {
	if p.out.Scan() {
		return p.out.Text(), nil
	}
	return "", errors.Join(errors.New("a program has ended"), p.out.Err(), p.cmd.Wait())
}

func (p *program) progress() (v progress, err error) {
	s, err := p.line()
	if err == nil {
		err = json.Unmarshal([]byte(s), &v)
	}
	return v, err
}

// ask returns the progress of a listener.
func (p *program) ask() (progress, error) {
	if _, err := fmt.Fprintln(p.in); err != nil {
		return progress{}, err
	}
	return p.progress()
}

// end ends the input of a program, and waits until it has ended.
func (p *program) end() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// Run makes the connections of a load. show, if not nil, gets each part of the first process.
func (h *Hosts) Run(ctx context.Context, l Load, show func(Part)) (r Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends what still runs
	r.Load = l
	listener, err := h.start(ctx, 1, task{Listen: netip.AddrPortFrom(h.hosts[1].IPv4(), 0).String()})
	if err != nil {
		return r, err
	}
	addr, err := listener.line()
	if err != nil {
		return r, err
	}
	var dialers []*program
	for range l.Processes {
		p, err := h.start(ctx, 0, task{Dial: addr, Rounds: l.Rounds, Parallel: l.Parallel, Deadline: l.Deadline})
		if err != nil {
			return r, err
		}
		if _, err := p.line(); err != nil { // it is ready
			return r, err
		}
		dialers = append(dialers, p)
	}
	var all sync.WaitGroup
	errs := make([]error, len(dialers))
	ends := make([]progress, len(dialers))
	begin := time.Now()
	for i, p := range dialers {
		all.Go(func() {
			var part func(progress) error
			if i == 0 {
				part = func(v progress) error { return h.measure(&r, v, listener, p, show) }
			}
			ends[i], errs[i] = p.follow(part)
		})
	}
	all.Wait()
	r.Elapsed = time.Since(begin)
	if err := errors.Join(errs...); err != nil {
		return r, err
	}
	for i, p := range dialers {
		r.add(ends[i])
		r.Done += ends[i].Done
		r.Late += ends[i].Late
		r.Slowest = max(r.Slowest, ends[i].Slowest)
		if err := p.end(); err != nil {
			return r, err
		}
	}
	v, err := listener.closed(ctx, l.Connections())
	if err != nil {
		return r, err
	}
	r.add(v)
	r.Accepted = v.Done
	return r, listener.end()
}

// add counts the failed connections of a process.
func (r *Result) add(v progress) {
	r.Failed += v.Failed
	if v.Error != "" {
		r.Errors = append(r.Errors, v.Error)
	}
}

// follow lets a program dial, and gives each part to a function, until the last one. That has the longest time of
// all.
func (p *program) follow(part func(progress) error) (v progress, err error) {
	if _, err := fmt.Fprintln(p.in); err != nil {
		return v, err
	}
	for slowest := time.Duration(0); !v.Ended; {
		if v, err = p.progress(); err == nil && part != nil {
			err = part(v)
		}
		if err != nil {
			return v, err
		}
		slowest = max(slowest, v.Slowest)
		v.Slowest = slowest
	}
	return v, nil
}

// measure adds a part.
func (h *Hosts) measure(r *Result, v progress, listener, dialer *program, show func(Part)) error {
	agents, err := h.Agents()
	if err != nil {
		return err
	}
	dials, err := heldBy(dialer.cmd.Process.Pid)
	if err != nil {
		return err
	}
	listens, err := heldBy(listener.cmd.Process.Pid)
	if err != nil {
		return err
	}
	w, err := listener.ask()
	if err != nil {
		return err
	}
	dials.Goroutines, listens.Goroutines = v.Goroutines, w.Goroutines
	held := map[string]Held{}
	for i, x := range []Held{agents[0], agents[1], dials, listens} {
		held[Subjects[i]] = x
	}
	p := Part{v.Done, v.Elapsed, v.Slowest, held}
	r.Parts = append(r.Parts, p)
	if show != nil {
		show(p)
	}
	return nil
}

// connectionsPatience is how long a listener may take to close the last connections.
const connectionsPatience = time.Minute

// closed waits until a listener has closed as many connections as were made, or has had time for it.
func (p *program) closed(ctx context.Context, n int) (v progress, err error) {
	for end := time.Now().Add(connectionsPatience); ; time.Sleep(20 * time.Millisecond) {
		if v, err = p.ask(); err != nil || v.Done+v.Failed >= n || time.Now().After(end) || ctx.Err() != nil {
			return v, err
		}
	}
}
