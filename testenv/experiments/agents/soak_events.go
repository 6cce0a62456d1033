// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/faults"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// soakEvent is a kind of event. Its function chooses what it needs with the random numbers of the soak.
type soakEvent struct {
	name   string
	weight int // frequency relative to the other events
	run    func(*soak) error
}

// maxClients is how many clients a host has at most.
const maxClients = 3

// soakEvents are all kinds of events. Agents are replaced on all hosts but the first.
var soakEvents = []soakEvent{
	{"client-starts", 6, func(s *soak) error {
		host := s.anyHost()
		if len(s.of(soakClient, host)) >= maxClients {
			return nil
		}
		return s.start(host, soakClient)
	}},
	{"client-ends", 3, func(s *soak) error {
		if list := s.of(soakClient, s.anyHost()); len(list) > 0 {
			s.end(list[:1])
		}
		return nil
	}},
	{"client-killed", 3, func(s *soak) error {
		if list := s.of(soakClient, s.anyHost()); len(list) > 0 {
			s.kill(list[s.rand.IntN(len(list))])
		}
		return nil
	}},
	{"server-killed", 1, func(s *soak) error {
		host := s.anyHost()
		for _, p := range s.of(soakServer, host) {
			s.kill(p)
		}
		return s.start(host, soakServer)
	}},
	{"hostile", 1, func(s *soak) error {
		host := s.anyHost()
		if len(s.of(soakHostile, -1)) > 0 {
			return nil
		}
		return s.start(host, soakHostile)
	}},
	{"agent-upgraded", 1, func(s *soak) error { return s.replace(s.laterHost(), "attach", "--upgrade") }},
	{"agent-killed", 1, (*soak).killAgent},
	{"agent-reloaded", 1, (*soak).reloadAgent},
	{"detached", 1, (*soak).detachAndAttach},
	{"precredit", 1, func(s *soak) error {
		host := s.laterHost()
		return s.setCredit(host, !s.credit[host])
	}},
	{"policy", 2, func(s *soak) error {
		return s.product(s.anyHost(), "policy", "set", topo.IfName, "--target", s.anyTarget().String())
	}},
	{"interface-down", 1, func(s *soak) error { return s.interrupt(s.hosts[s.anyHost()].Host, topo.IfName) }},
	{"carrier-lost", 1, func(s *soak) error {
		return s.interrupt(s.top.Switch(), s.hosts[s.anyHost()].Port().Name())
	}},
	{"address", 2, func(s *soak) error {
		host := s.anyHost()
		return s.setSpare(host, !s.spare[host])
	}},
	{"loss", 2, func(s *soak) error { return s.loss.Lose(0.03 * s.rand.Float64()) }},
	{"loss-ends", 2, func(s *soak) error { return s.loss.Lose(0) }},
	{"disorder", 2, func(s *soak) error {
		s.box.Set(faults.Spec{Loss: 0.01, Duplicates: 0.02, Delayed: 0.1, Delay: 2 * time.Millisecond})
		return nil
	}},
	{"disorder-ends", 2, func(s *soak) error { s.box.Set(faults.Spec{}); return nil }},
	{"bottleneck", 2, func(s *soak) error {
		rate := uint64(50+s.rand.IntN(450)) * 1_000_000
		return s.hosts[s.anyHost()].Port().SetBottleneck(&topo.Bottleneck{RateBPS: rate})
	}},
	{"bottleneck-ends", 2, func(s *soak) error { return s.hosts[s.anyHost()].Port().SetBottleneck(nil) }},
}

func (s *soak) anyHost() int   { return s.rand.IntN(len(s.hosts)) }
func (s *soak) laterHost() int { return 1 + s.rand.IntN(len(s.hosts)-1) }

// anyTarget is a target of the queueing delay, at least twice the default deadband.
func (s *soak) anyTarget() time.Duration {
	return time.Duration(2+s.rand.IntN(9)) * 100 * time.Microsecond
}

// drawEvent chooses the next event.
func (s *soak) drawEvent() *soakEvent {
	sum := 0
	for i := range soakEvents {
		sum += soakEvents[i].weight
	}
	n := s.rand.IntN(sum)
	for i := range soakEvents {
		if n -= soakEvents[i].weight; n < 0 {
			return &soakEvents[i]
		}
	}
	panic("unreachable")
}

// disturb has events happen, one after the other, for the length of a period.
func (s *soak) disturb(ctx context.Context) error {
	for end := time.Now().Add(s.Period); time.Now().Before(end) && ctx.Err() == nil; {
		e := s.drawEvent()
		s.period.Events[e.name]++
		begin := time.Now()
		err := e.run(s)
		s.Event(fmt.Sprintf("%v: %s took %v", begin.Format("15:04:05.000"), e.name, time.Since(begin).Round(time.Millisecond)))
		if err != nil {
			s.problem("event %s: %v", e.name, err)
			return nil
		}
		pause(ctx, time.Duration(s.rand.Int64N(int64(time.Second))))
	}
	return nil
}

// product runs a command of the product on a host.
func (s *soak) product(host int, args ...string) error {
	out, err := s.hosts[host].Product(args...)
	if err != nil {
		err = fmt.Errorf("host %d: %v: %w\n%s%s", host+1, args, err, out, tail(s.hosts[host].Log(), 20))
	}
	return err
}

// replace runs a command that replaces the agent of a host, whose counters are checked before.
func (s *soak) replace(host int, args ...string) error {
	if err := s.checkFaultsOf(host); err != nil {
		return err
	}
	return s.product(host, append(args, "--config", s.configPath(), topo.IfName)...)
}

func (s *soak) killAgent() error {
	host := s.laterHost()
	if err := s.checkFaultsOf(host); err != nil {
		return err
	}
	if err := s.signalAgent(host, unix.SIGKILL); err != nil {
		return err
	}
	err := s.until(func() error { // attach refuses while the kernel has not freed what the process had
		return s.hosts[host].Do(func() error {
			if loader.HasAgent(topo.IfName, s.hosts[host].LoaderOptions()) {
				return fmt.Errorf("host %d: the agent that was killed is still there", host+1)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(s.rand.Int64N(int64(time.Second))))
	return s.product(host, "attach", "--config", s.configPath(), topo.IfName)
}

// reloadAgent changes the configuration file and has an agent reload it, and does not wait until it has.
func (s *soak) reloadAgent() error {
	host := s.laterHost()
	if err := errors.Join(s.checkFaultsOf(host), s.writeConfig(s.anyTarget())); err != nil {
		return err
	}
	return s.signalAgent(host, unix.SIGHUP)
}

func (s *soak) detachAndAttach() error {
	host := s.laterHost()
	if err := errors.Join(s.checkFaultsOf(host), s.product(host, "detach", topo.IfName)); err != nil {
		return err
	}
	s.credit[host], s.detached[host] = false, true
	time.Sleep(time.Duration(s.rand.Int64N(int64(time.Second))))
	return s.product(host, "attach", "--config", s.configPath(), topo.IfName)
}

// setCredit turns pre-credit of a host on or off.
func (s *soak) setCredit(host int, on bool) error {
	s.credit[host] = on
	s.credited[host] = s.credited[host] || on
	return s.replace(host, "attach", "--upgrade", fmt.Sprintf("--nic-precredit=%t", on))
}

// interrupt takes an interface down and up again.
func (s *soak) interrupt(h *topo.Host, name string) error {
	link, err := h.Netlink().LinkByName(name)
	if err != nil {
		return err
	}
	if err := h.Netlink().LinkSetDown(link); err != nil {
		return err
	}
	time.Sleep(time.Duration(s.rand.Int64N(int64(2 * time.Second))))
	return h.Netlink().LinkSetUp(link)
}

// setSpare adds the second address of a host, or takes it away.
func (s *soak) setSpare(host int, there bool) error {
	verb := "del"
	if there {
		verb = "add"
	}
	s.spare[host] = there
	out, err := s.hosts[host].Command("ip", "addr", verb, s.spareAddressPrefix(host), "dev", topo.IfName).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("host %d: ip addr %s: %w\n%s", host+1, verb, err, out)
	}
	return err
}

// endFaults takes back what events have changed and what would differ at rest.
func (s *soak) endFaults() error {
	s.box.Set(faults.Spec{})
	errs := []error{s.loss.Lose(0), s.writeConfig(usualTarget)}
	for i, h := range s.hosts {
		errs = append(errs, h.Port().SetBottleneck(nil))
		if s.spare[i] {
			errs = append(errs, s.setSpare(i, false))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i := range s.hosts {
		if !s.credit[i] {
			continue
		}
		if err := s.setCredit(i, false); err != nil {
			s.problem("%v", err)
		}
	}
	return nil
}

// signalAgent sends a signal to the agent of a host.
func (s *soak) signalAgent(host int, sig unix.Signal) error {
	st, err := loader.ReadState(s.hosts[host].LoaderOptions().RunDir, topo.IfName)
	if err == nil {
		err = s.signalOwn(st.AgentPID, sig)
	}
	if err != nil {
		err = fmt.Errorf("host %d: %w\n%s", host+1, err, tail(s.hosts[host].Log(), 20))
	}
	return err
}

// signalOwn sends a signal to a process that must be an agent of this soak. Number 0 would be all processes of the group.
func (s *soak) signalOwn(pid int, sig unix.Signal) error {
	if !s.ownAgent(pid) {
		return fmt.Errorf("process %d is not an agent of this soak", pid)
	}
	return unix.Kill(pid, sig)
}

// ownAgent reports whether a process is an agent of this soak.
func (s *soak) ownAgent(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return pid > 0 && err == nil && strings.Contains(string(b), s.Dir) && unix.Kill(pid, 0) == nil
}
