// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/faults"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// The files soak*.go run agents for hours while programs come and go, packets are lost, links go down, and agents are
// replaced. The time is divided into periods. A period has random events first, then a time without faults in which every
// program must make progress and each kind of traffic must succeed, then a rest without programs. At rest the agents must
// have no more than at the rest of the first period. Nothing that is judged depends on the speed of the machine.
//
//	soak.go           the periods
//	soak_events.go    what happens in a period
//	soak_programs.go  starting and ending programs
//	soak_program.go, soak_server.go, soak_client.go   what the programs do
//	soak_traffic.go  the kinds of traffic
//	soak_census.go, soak_heap.go   what an agent has
//	soak_faults.go    counters that stay zero, the kernel log
//	soak_judge.go     memory over the periods
//	soak_report.go    the figures as text

// SoakConfig is the extent of a soak.
type SoakConfig struct {
	Duration time.Duration // sum of all periods; at least two periods are run
	Period   time.Duration // time of the events of a period
	Hosts    int           // 2 to 8; the agent of the first one is never replaced
	Seed     uint64        // seed of the order of events and of the programs' choices
	Binary   string        // the product
	Dir      string        // directory of the run's files, which every user can read

	Line  func(string) // called with each line of the report
	Event func(string) // called with a line for each event
}

// soakPatience bounds each wait for something that comes about on any machine.
const soakPatience = 3 * time.Minute

// soak is a soak while it runs.
type soak struct {
	SoakConfig
	top     *topo.Topology
	hosts   []*engines.Host
	loss    *faults.Switch
	box     *faults.Box // box in the link of the last host
	counter counter
	heap    heapReader
	kernel  *kernelLog

	rand     *rand.Rand
	programs []*soakRun
	started  uint64 // programs, for their seeds
	credit   []bool // hosts whose pre-credit an event has turned on, until it is turned off
	credited []bool // hosts whose pre-credit an event has turned on at some time
	detached []bool // hosts that an event has detached at some time
	spare    []bool // hosts that have their second address now

	period     *SoakPeriod
	quietSince int64 // from when on no visit of this period may fail, by monotonic; 0 while faults are explained
	result     SoakResult
}

// SoakPeriod is what a period has shown.
type SoakPeriod struct {
	Number  int
	Elapsed time.Duration
	Events  map[string]int
	Done    SoakProgress // progress of all its programs
	Agents  []Census     // census of each agent at rest
}

// SoakResult is what a soak has shown.
type SoakResult struct {
	Periods     []SoakPeriod
	Problems    []string // none: the soak has passed
	Interrupted bool
}

// Soak runs a soak until its time is over, a period has a problem, or the context ends. With an error nothing has run.
func Soak(ctx context.Context, c SoakConfig) (*SoakResult, error) {
	if c.Hosts < 2 || c.Hosts > 8 {
		return nil, fmt.Errorf("%d hosts: a soak has 2 to 8", c.Hosts)
	}
	flags := func() []bool { return make([]bool, c.Hosts) }
	s := &soak{SoakConfig: c, rand: rand.New(rand.NewPCG(c.Seed, 1)), credit: flags(), credited: flags(), detached: flags(), spare: flags()}
	var err error
	if s.counter, err = newCounter(c.Binary); err != nil {
		return nil, err
	}
	if s.heap, err = newHeapReader(c.Binary); err != nil {
		return nil, err
	}
	if s.kernel, err = openKernelLog(); err != nil { // as in a container without the device
		s.Line("# without the kernel log: " + err.Error())
	}
	defer s.kernel.close()
	err = s.inTopology(func() error { return s.periods(ctx) })
	s.result.Interrupted = ctx.Err() != nil
	s.conclude(err)
	return &s.result, nil
}

// conclude adds the problems that show at the end of a soak, and writes the verdict. err is the error that has ended the
// periods or their preparation, or that of the end of the topology.
func (s *soak) conclude(err error) {
	note := func(problems ...string) { s.result.Problems = append(s.result.Problems, problems...) }
	if err != nil {
		note(fmt.Sprintf("the soak has ended by an error: %v", err))
	}
	note(s.kernel.warnings()...) // of the way down
	if err == nil {
		note(s.leftOfTopology()...)
	}
	note(judgeMemory(s.result.Periods)...)
	s.writeVerdict()
}

// inTopology makes the hosts with their agents, calls a function, and takes all of it down.
func (s *soak) inTopology(f func() error) (err error) {
	var undo []func() error
	defer func() {
		for _, u := range slices.Backward(undo) {
			err = errors.Join(err, u())
		}
	}()
	hosts := make([]topo.HostSpec, s.Hosts)
	for i := range hosts {
		hosts[i].NoOffload = true // a box forwards frames as a cable does
	}
	if s.top, err = topo.New(topo.Spec{Hosts: hosts}); err != nil {
		return err
	}
	undo = append(undo, s.top.Close)
	for _, h := range s.top.Hosts() {
		// IPv6 addresses survive that the interface goes down.
		if err := h.Sysctl("net/ipv6/conf/eth0/keep_addr_on_down", "1"); err != nil {
			return err
		}
	}
	if s.loss, err = faults.NewLoss(s.top); err != nil {
		return err
	}
	undo = append(undo, s.loss.Close)
	if s.box, err = faults.NewOnLink(s.top, s.top.Host(s.Hosts), s.Seed); err != nil {
		return err
	}
	undo = append(undo, s.box.Close)
	if err := s.writeConfig(usualTarget); err != nil {
		return err
	}
	hostsUp, detach, err := engines.AttachEach(s.top, s.Binary, s.Dir, s.attachFlags)
	s.hosts = hostsUp
	undo = append(undo, detach, s.killPrograms)
	if err != nil {
		return err
	}
	return f()
}

// attachFlags are the flags of the first attach. The first host has pre-credit in all periods, because its agent is never
// replaced, and those of the others have none at rest (endFaults).
func (s *soak) attachFlags(host int) []string {
	return []string{"--config", s.configPath(), fmt.Sprintf("--nic-precredit=%t", host == 0)}
}

// usualTarget is the target of the queueing delay while no event has changed it.
const usualTarget = 500 * time.Microsecond

func (s *soak) configPath() string { return filepath.Join(s.Dir, "config.yaml") }

// writeConfig writes the configuration file of all agents, which they read when they start or reload.
func (s *soak) writeConfig(target time.Duration) error {
	text := fmt.Sprintf("defaults: {rate: 2G, nic: true, nic-mode: \"0666\", policy: {target: %v}}\n", target)
	next := s.configPath() + ".next"
	return errors.Join(os.WriteFile(next, []byte(text), 0o644), os.Rename(next, s.configPath()))
}

// address is an address of a host, and spareAddress its second one.
func (s *soak) address(host int) netip.Addr { return s.top.Host(host + 1).IPv4() }
func (s *soak) spareAddress(host int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 53, 200, byte(host + 1)})
}

// addressesOfHost is how many addresses of a host another one may have entries for: IPv4, IPv6, link-local, and the
// spare one.
const addressesOfHost = 4

// periods runs periods.
func (s *soak) periods(ctx context.Context) error {
	s.writeHeader()
	begin := time.Now()
	for n := 1; ; n++ {
		s.period, s.quietSince = &SoakPeriod{Number: n, Events: map[string]int{}}, 0
		err := s.onePeriod(ctx)
		s.period.Elapsed = time.Since(begin)
		s.result.Periods = append(s.result.Periods, *s.period)
		s.writePeriod(s.period)
		over := n > 1 && time.Since(begin) >= s.Duration
		if err != nil || over || ctx.Err() != nil || len(s.result.Problems) > 0 {
			return err
		}
	}
}

// problem notes what must not be. The soak goes on until the end of the period.
func (s *soak) problem(format string, args ...any) {
	text := fmt.Sprintf("period %d: %s", s.period.Number, fmt.Sprintf(format, args...))
	s.result.Problems = append(s.result.Problems, text)
	s.Line("# PROBLEM " + text)
}

// onePeriod runs one period. The error is one of the test itself.
func (s *soak) onePeriod(ctx context.Context) error {
	for host := range s.hosts {
		if err := s.start(host, soakServer); err != nil {
			return err
		}
	}
	for host := range s.hosts {
		if err := s.start(host, soakClient); err != nil {
			return err
		}
	}
	if err := s.disturb(ctx); err != nil {
		return err
	}
	if err := s.calm(); err != nil {
		return err
	}
	for host := range s.hosts { // servers make progress by clients
		if len(s.of(soakClient, host)) == 0 {
			if err := s.start(host, soakClient); err != nil {
				return err
			}
		}
	}
	s.Event("faults ended")
	s.checkProgress(ctx)
	s.Event("progress checked")
	s.endAll()
	s.Event("programs ended")
	err := s.rest(ctx)
	for _, w := range s.kernel.warnings() {
		s.problem("%s", w)
	}
	return err
}

// calm ends all faults, and waits until every agent serves its device.
func (s *soak) calm() error {
	if err := s.endFaults(); err != nil {
		return err
	}
	for i, h := range s.hosts {
		if err := s.until(func() error { return s.serving(h) }); err != nil {
			s.problem("host %d serves no device after the faults have ended: %v\n%s", i+1, err, tail(h.Log(), 20))
		}
	}
	return nil
}

// serving returns nil if the agent of a host serves its device.
func (s *soak) serving(h *engines.Host) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := device.ReadStatus(ctx, proto.SocketPath(h.LoaderOptions().RunDir, topo.IfName))
	return err
}

// until waits until a function succeeds, and returns its last error if it does not.
func (s *soak) until(f func() error) error {
	for end := time.Now().Add(soakPatience); ; time.Sleep(100 * time.Millisecond) {
		err := f()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// lastRest is how many readings in a row are equal at the first rest, together longer than a connection stays after its
// end.
const lastRest = 50

// rest waits until the agents have no more than at the first rest, and notes what they have.
func (s *soak) rest(ctx context.Context) error {
	var now []Census
	read := func() (err error) {
		now, err = s.allAtRest()
		return err
	}
	if len(s.result.Periods) == 0 {
		last, same := "", 0
		err := s.until(func() error {
			if err := read(); err != nil {
				return err
			}
			text := ""
			for i := range now {
				text += strings.Join(now[i].more(&Census{}, 0, 0), "\n")
				if now[i].Processes+now[i].Connections > 0 {
					same = 0
				}
			}
			if same++; text != last {
				last, same = text, 0
			}
			if same < lastRest && ctx.Err() == nil {
				return fmt.Errorf("the agents change still: %+v", now)
			}
			return nil
		})
		if err != nil {
			s.problem("no rest: %v", err)
		}
		s.period.Agents = now
		return s.checkFaults()
	}
	var more []string
	first := s.result.Periods[0].Agents
	err := s.until(func() error {
		if err := read(); err != nil {
			return err
		}
		more = nil
		for i := range now {
			for _, m := range now[i].more(&first[i], runtime.NumCPU(), addressesOfHost*s.Hosts) {
				more = append(more, fmt.Sprintf("host %d: %s", i+1, m))
			}
		}
		if len(more) > 0 {
			return errors.New("left over")
		}
		return nil
	})
	s.period.Agents = now
	for _, m := range more {
		s.problem("at rest: %s", m)
	}
	if err != nil && len(more) == 0 {
		s.problem("at rest: %v", err)
	}
	return s.checkFaults()
}

// allAtRest reads what all agents have, with what their devices report.
func (s *soak) allAtRest() (all []Census, err error) {
	for _, h := range s.hosts {
		c, err := s.census(h)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		st, err := device.ReadStatus(ctx, proto.SocketPath(h.LoaderOptions().RunDir, topo.IfName))
		cancel()
		if err != nil {
			return nil, err
		}
		c.Processes = len(st.Processes)
		for _, p := range st.Processes {
			c.Connections += int(p.Connections)
		}
		c.Connections += int(st.Counters["queue_pairs"])
		all = append(all, c)
	}
	return all, nil
}
