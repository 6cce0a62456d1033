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
	"slices"
	"strings"
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
		if d.Causes == nil {
			d.Causes = map[string]uint64{}
		}
		for cause, n := range v.Causes {
			d.Causes[cause] += n
		}
	}
	d.addTraffic(v.Traffic)
	if s.quietSince > 0 {
		for _, f := range failedTraffic(s.quietSince, v) {
			s.problem("the %s has failed without a fault in the network: %s", p, f)
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

// checkProgress waits until every program has made progress with each kind of traffic, in a network without faults. From
// then on no visit may fail: all servers have opened their devices again, and every host reaches all of them.
func (s *soak) checkProgress(ctx context.Context) {
	for range 2 { // the second time are visits whose failure is judged
		since := monotonic()
		before := map[*soakRun]SoakProgress{}
		for _, p := range s.programs {
			before[p] = p.progress()
		}
		var missing []string
		_ = s.until(func() error {
			if missing = s.missingProgress(since, before); len(missing) > 0 && ctx.Err() == nil {
				return errNoProgress
			}
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		for _, m := range missing {
			s.problem("without faults: %s", m)
		}
		if len(missing) > 0 {
			return // what fails is known
		}
		if s.quietSince == 0 {
			s.quietSince = monotonic()
		}
	}
}

var errNoProgress = errors.New("no progress")

// missingProgress returns what programs have not done since a time, when they had this progress.
func (s *soak) missingProgress(since int64, before map[*soakRun]SoakProgress) (missing []string) {
	const visits = 3
	for _, p := range s.programs {
		now, b := p.progress(), before[p]
		switch {
		case p.kind == soakClient && now.Visits < b.Visits+visits:
			missing = append(missing, fmt.Sprintf("the %s has made %d visits, and %d before", p, now.Visits, b.Visits))
		case p.kind == soakServer && now.Connections <= b.Connections:
			missing = append(missing, fmt.Sprintf("the %s has accepted %d connections, and no more since", p, b.Connections))
		}
	}
	if s.quietSince > 0 {
		return missing // each kind of traffic was there
	}
	for host := range s.hosts {
		for _, kind := range []string{soakClient, soakServer} {
			var all []SoakProgress
			for _, p := range s.of(kind, host) {
				all = append(all, p.progress())
			}
			if list := missingTraffic(kind, s.Hosts, since, all); len(list) > 0 {
				missing = append(missing, fmt.Sprintf("no %s of host %d has succeeded with %s", kind, host+1, strings.Join(list, ", ")))
			}
		}
	}
	return missing
}

// spareAddressPrefix is the second address of a host with its prefix, as `ip addr` takes it.
func (s *soak) spareAddressPrefix(host int) string {
	return netip.PrefixFrom(s.spareAddress(host), 16).String()
}
