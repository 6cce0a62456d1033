// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Users of the programs, without privileges. A hostile program has a user of its own, whose limits are not those of the
// others.
const (
	nobody        = 65534
	hostileNobody = 65533
)

// soakRun is a program that runs on a host.
type soakRun struct {
	host   int
	kind   string
	cmd    *topo.Cmd
	in     io.WriteCloser
	exited chan struct{} // closed when the process has ended
	err    error         // error at its end

	mu   sync.Mutex
	last SoakProgress
}

func (p *soakRun) String() string {
	return fmt.Sprintf("%s on host %d (process %d)", p.kind, p.host+1, p.cmd.Process.Pid)
}

// progress returns the latest report of the program.
func (p *soakRun) progress() SoakProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// start starts a program of a kind on a host.
func (s *soak) start(host int, kind string) error {
	s.started++
	t := soakTask{Kind: kind, RunDir: s.hosts[host].LoaderOptions().RunDir, Seed: s.Seed + s.started<<32}
	for i := range s.hosts {
		// A client also connects to its own host: packets between its programs stay in the engine.
		t.Peers, t.Spare = append(t.Peers, s.address(i)), append(t.Spare, s.spareAddress(i))
		t.Peers = append(t.Peers, s.top.Host(i+1).IPv6())
	}
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	p := &soakRun{host: host, kind: kind, cmd: s.hosts[host].Command("/proc/self/exe"), exited: make(chan struct{})}
	user := uint32(nobody)
	if kind == soakHostile {
		user = hostileNobody
	}
	p.cmd.Cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
	p.cmd.Dir = "/"
	p.cmd.Env = append(os.Environ(), soakEnv+"="+string(b))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start a %s: %w", kind, err)
	}
	go p.follow(out)
	s.programs = append(s.programs, p)
	return nil
}

// follow reads the reports of the program until its end.
func (p *soakRun) follow(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v SoakProgress
		if json.Unmarshal(lines.Bytes(), &v) == nil {
			p.mu.Lock()
			p.last = v
			p.mu.Unlock()
		}
	}
	p.err = p.cmd.Wait()
	close(p.exited)
}

// of returns the programs of a kind, on one host or, with host -1, on all.
func (s *soak) of(kind string, host int) (list []*soakRun) {
	for _, p := range s.programs {
		if p.kind == kind && (host < 0 || p.host == host) {
			list = append(list, p)
		}
	}
	return list
}

// kill ends a program with SIGKILL.
func (s *soak) kill(p *soakRun) {
	_ = p.cmd.Process.Kill() // does nothing if the process has ended, whose number may be that of another one now
	<-p.exited
	s.count(p, p.progress())
}

// end ends the input of programs and waits until they have ended.
func (s *soak) end(list []*soakRun) {
	for _, p := range list {
		_ = p.in.Close()
	}
	hung := stillRunning(list, soakPatience+visitLimit) // a visit is not interrupted
	for _, p := range list {
		if slices.Contains(hung, p) {
			s.problem("the %s has not ended: %+v", p, p.progress())
			s.kill(p)
			continue
		}
		v := p.progress()
		s.count(p, v)
		if p.err != nil || !v.Ended {
			s.problem("the %s ended with %v: %+v", p, p.err, v)
		}
		if v.Left != "" {
			s.problem("the %s has at its end: %s", p, v.Left)
		}
	}
}

// stillRunning waits until programs have ended, for a time in all, and returns those that have not.
func stillRunning(list []*soakRun, limit time.Duration) (hung []*soakRun) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, p := range list {
		select {
		case <-p.exited:
		case <-ctx.Done():
			select {
			case <-p.exited:
			default:
				hung = append(hung, p)
			}
		}
	}
	return hung
}

// count adds what a program has done to the period, and forgets the program.
func (s *soak) count(p *soakRun, v SoakProgress) {
	if v.Wrong != "" {
		s.problem("the %s: %s", p, v.Wrong)
	}
	d := &s.period.Done
	d.Datagrams += v.Datagrams
	d.Opened += v.Opened
	if p.kind == soakClient { // servers have the other end of the same
		d.Visits += v.Visits
		d.Connections += v.Connections
		d.Operations += v.Operations
		d.Bytes += v.Bytes
		d.Failures += v.Failures
		if d.Kinds == nil {
			d.Kinds = map[string]uint64{}
		}
		for kind, n := range v.Kinds {
			d.Kinds[kind] += n
		}
	}
	s.programs = slices.DeleteFunc(s.programs, func(q *soakRun) bool { return q == p })
}

// endAll ends the clients, then the servers.
func (s *soak) endAll() {
	for _, kind := range []string{soakHostile, soakClient, soakServer} {
		s.end(s.of(kind, -1))
	}
}

// killPrograms ends what still runs after an error.
func (s *soak) killPrograms() error {
	for _, p := range slices.Clone(s.programs) {
		s.kill(p)
	}
	return nil
}

// checkProgress waits until every client has made further visits and every server has accepted further connections,
// without a fault in the network.
func (s *soak) checkProgress(ctx context.Context) {
	const visits = 3
	before := map[*soakRun]SoakProgress{}
	for _, p := range s.programs {
		before[p] = p.progress()
	}
	for _, p := range s.programs {
		err := s.until(func() error {
			select {
			case <-p.exited:
				return nil // the end of the period judges it
			default:
			}
			now, b := p.progress(), before[p]
			done := p.kind == soakHostile || p.kind == soakClient && now.Visits >= b.Visits+visits || p.kind == soakServer && now.Connections > b.Connections
			if done || ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("now %+v, before %+v", now, b)
		})
		if err != nil {
			s.problem("the %s makes no progress without faults: %v", p, err)
		}
	}
}

// spareAddressPrefix is the second address of a host with its prefix, as `ip addr` takes it.
func (s *soak) spareAddressPrefix(host int) string {
	return netip.PrefixFrom(s.spareAddress(host), 16).String()
}
