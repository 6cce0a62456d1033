// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/mr/clientmem"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// do executes a request and returns the body of its reply, and descriptors for it, which stay the server's.
func (c *session) do(t proto.Type, req any, fds []int) (reply any, give []int, err error) {
	switch t {
	case proto.TPort:
		reply, err = c.port()
	case proto.TAllocPD:
		reply, err = c.allocPD()
	case proto.TAddArena:
		reply, err = c.addArena(req.(*proto.AddArena), fds)
	case proto.TRegArena:
		reply, err = c.regArena(req.(*proto.RegArena))
	case proto.TPassMemory:
		err = c.passMemory(fds)
	case proto.TRegMemory:
		reply, err = c.regMemory(req.(*proto.RegMemory))
	case proto.TAllocMW:
		reply, err = c.allocMW(req.(*proto.Handle))
	case proto.TQueryMW:
		reply, err = c.queryMW(req.(*proto.Handle))
	case proto.TCreateAH:
		reply, err = c.createAH(req.(*proto.CreateAH))
	case proto.TCounters:
		reply = countersReply(c.counts.Counters(), req.(*proto.CountersRequest).First)
	case proto.TDistributionStats:
		reply, err = c.distributionStats(req.(*proto.Handle))
	case proto.TCreateCQ:
		return c.createCQ(req.(*proto.CreateCQ))
	case proto.TResizeCQ:
		return c.resizeCQ(req.(*proto.ResizeCQ))
	case proto.TCreateSRQ:
		return c.createSRQ(req.(*proto.CreateSRQ))
	case proto.TCreateQP:
		return c.createQP(req.(*proto.CreateQP))
	case proto.TQuerySRQ:
		reply, err = c.querySRQ(req.(*proto.Handle))
	case proto.TSetSRQLimit:
		err = c.setLimit(req.(*proto.SRQLimit))
	case proto.TModifyQP:
		c.settle()
		err = c.modify(req.(*proto.ModifyQP))
	case proto.TEncryptQP:
		err = c.encrypt(req.(*proto.EncryptQP))
	case proto.TQueryQP:
		reply, err = c.query(req.(*proto.Handle))
	default:
		if t >= proto.TCM {
			reply, err = c.doCM(t, req)
		} else {
			err = c.end(t, req)
		}
	}
	return reply, nil, err
}

// end executes the requests that destroy an object.
func (c *session) end(t proto.Type, req any) error {
	m, ok := req.(*proto.Handle)
	if !ok {
		return fmt.Errorf("%w: type %d", proto.ErrProtocol, t)
	}
	switch t {
	case proto.TFreePD:
		return drop[*domain](c, m.Handle)
	case proto.TDropArena:
		return drop[*arenaMemory](c, m.Handle)
	case proto.TDeregMR:
		return drop[*region](c, m.Handle)
	case proto.TFreeMW:
		return drop[*window](c, m.Handle)
	case proto.TDestroyCQ:
		return drop[*completionQueue](c, m.Handle)
	case proto.TDestroySRQ:
		return drop[*sharedQueue](c, m.Handle)
	case proto.TDestroyQP:
		return drop[*queuePair](c, m.Handle)
	case proto.TDestroyAH:
		c.settle()
		c.rings.handles.Delete(m.Handle)
		return drop[*address](c, m.Handle)
	}
	return fmt.Errorf("%w: type %d", proto.ErrProtocol, t)
}

// settle has the engine take what the process has posted before this request. Between two parts the
// engine serves others. A process that goes on posting does not delay it without bound, and one that nobody
// is to look at (fairness.go) waits.
func (c *session) settle() {
	for range settleRounds {
		var more bool
		var wait time.Duration
		c.s.dev.InLoop(func() { more, wait = c.rings.settle() })
		if !more {
			return
		}
		if wait > 0 {
			select {
			case <-time.After(wait):
			case <-c.socket.hung:
				return
			}
		}
	}
}

// settleRounds is how often settle takes: more than all rings of an honest process hold, mostly.
const settleRounds = 256

func (c *session) port() (*proto.PortReply, error) {
	p, err := c.s.dev.Port()
	if err != nil {
		return nil, err
	}
	r := &proto.PortReply{MTU: uint32(p.MTU), MAC: p.MAC, Count: uint32(min(len(p.GIDs), proto.MaxGIDs))}
	if c.s.conf.Rate != nil {
		r.Mbps = uint32(c.s.conf.Rate() / 1e6)
	}
	if p.Active {
		r.Active = 1
	}
	for i := range r.Count {
		r.GIDs[i] = proto.AddrOf(p.GIDs[i])
	}
	return r, nil
}

// added gives an object a handle, or destroys it.
func (c *session) added(o object) (uint32, error) {
	h, err := c.add(o)
	if err != nil {
		if e := c.destroy(o); e != nil {
			c.s.log.Error("an object that was refused cannot be destroyed", "pid", c.process.pid, "err", e)
		}
	}
	return h, err
}

func (c *session) allocPD() (*proto.Handle, error) {
	pd, err := c.s.dev.AllocPD()
	if err != nil {
		return nil, err
	}
	pd.(*nic.PD).CountTo(c.counts)
	h, err := c.added(&domain{pd.(*nic.PD)})
	return &proto.Handle{Handle: h}, err
}

func (c *session) addArena(m *proto.AddArena, fds []int) (*proto.Handle, error) {
	if len(fds) != 1 {
		return nil, fmt.Errorf("%w: an arena is one descriptor, not %d", proto.ErrProtocol, len(fds))
	}
	cost := []limits.Use{{Kind: limits.Arenas, N: m.Bytes}, {Kind: limits.Mappings, N: 1}}
	if err := c.charge(cost...); err != nil {
		return nil, err
	}
	a, err := patiently(c.socket, fds, func() (*clientmem.Arena, error) {
		fd, err := unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		return clientmem.OpenArena(fd, m.Bytes)
	}, func(a *clientmem.Arena) { _ = a.Close() })
	if err != nil {
		c.account.Release(cost...)
		return nil, fmt.Errorf("%w: %w", proto.ErrMemory, err)
	}
	h, err := c.added(&arenaMemory{Arena: a, cost: cost})
	return &proto.Handle{Handle: h}, err
}

// overLimit has the client see an error of limits as proto.ErrLimit.
func overLimit(err error) error {
	var e *limits.Error
	if errors.As(err, &e) {
		return fmt.Errorf("%w: %w", proto.ErrLimit, err)
	}
	return err
}

// charge counts what the process uses, or returns which limit it would exceed.
func (c *session) charge(uses ...limits.Use) error { return overLimit(c.account.Acquire(uses...)) }

func (c *session) regArena(m *proto.RegArena) (*proto.RegReply, error) {
	pd, err := get[*domain](c, m.PD)
	if err != nil {
		return nil, err
	}
	a, err := get[*arenaMemory](c, m.Arena)
	if err != nil {
		return nil, err
	}
	b, err := a.Slice(m.Offset, m.Length)
	if err != nil {
		return nil, err
	}
	a.regions.Add(1)
	r, err := c.register(pd, m.Access, m.Length, &m.Group, &region{arena: a}, func() (mr.Spec, error) { return mr.Spec{Host: b, VA: m.VA}, nil })
	if err != nil {
		a.regions.Add(-1)
	}
	return r, err
}

// register makes a region of n bytes. o is its object, without the region. spec is called when the
// limits allow the region.
func (c *session) register(pd *domain, access uint32, n uint64, g *proto.Group, o *region, spec func() (mr.Spec, error)) (_ *proto.RegReply, err error) {
	if access > 0xff {
		return nil, fmt.Errorf("%w: %#x", verbs.ErrAccess, access)
	}
	group, err := g.MR()
	if err != nil {
		return nil, err
	}
	o.cost = []limits.Use{{Kind: limits.MRs, N: 1}, {Kind: limits.Bytes, N: n}}
	if len(group) > 0 { // the messages that it remembers take as much memory
		o.cost = append(o.cost, limits.Use{Kind: limits.WRs, N: mr.DistributionDepth})
	}
	if err := c.charge(o.cost...); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.account.Release(o.cost...)
		}
	}()
	s, err := spec()
	if err != nil {
		return nil, err
	}
	s.Access = verbs.Access(access)
	if len(group) > 0 {
		o.r, err = pd.RegDistribution(s, group)
	} else {
		o.r, err = pd.Register(s)
	}
	if err != nil {
		return nil, err
	}
	h, err := c.add(o)
	if err != nil {
		_ = o.r.Deregister() // nothing is bound to it yet
		return nil, err
	}
	return &proto.RegReply{Handle: h, LKey: o.r.LKey(), RKey: o.r.RKey()}, nil
}

func (c *session) distributionStats(m *proto.Handle) (*proto.DistributionStats, error) {
	o, err := get[*region](c, m.Handle)
	if err != nil {
		return nil, err
	}
	d, ok := o.r.(*nic.Distribution)
	if !ok {
		return nil, fmt.Errorf("%w: region %d has no group", proto.ErrHandle, m.Handle)
	}
	s, err := d.Stats()
	return (*proto.DistributionStats)(&s), err
}

func (c *session) passMemory(fds []int) error {
	c.mu.Lock()
	passed := c.memory != nil
	c.mu.Unlock()
	if passed {
		return fmt.Errorf("%w: the memory was passed already", proto.ErrProtocol)
	}
	m, err := patiently(c.socket, fds, func() (*processMemory, error) { return openProcess(fds) }, (*processMemory).close)
	if err != nil {
		return fmt.Errorf("%w: %w", proto.ErrMemory, err)
	}
	c.mu.Lock()
	c.memory = m // calls with descriptors are done in order
	c.mu.Unlock()
	select {
	case c.s.passed <- struct{}{}: // guard samples it
	default:
	}
	return nil
}

func (c *session) regMemory(m *proto.RegMemory) (*proto.RegReply, error) {
	pd, err := get[*domain](c, m.PD)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	memory := c.memory
	c.mu.Unlock()
	if memory == nil {
		return nil, fmt.Errorf("%w: pass the memory of the process first", proto.ErrProtocol)
	}
	return c.register(pd, m.Access, m.Length, &m.Group, &region{}, func() (mr.Spec, error) {
		c.socket.costs.call(m.Length / bytesOfCall) // the limit of bytes bounds it
		before := memory.Steps()
		s, err := memory.Spec(m.Addr, m.Length, verbs.Access(m.Access))
		s.VA = m.VA
		c.socket.costs.call((memory.Steps() - before) / stepsOfCall)
		if err != nil {
			err = fmt.Errorf("%w: %w", proto.ErrMemory, err)
		}
		return s, err
	})
}

func (c *session) allocMW(m *proto.Handle) (*proto.AllocMWReply, error) {
	pd, err := get[*domain](c, m.Handle)
	if err != nil {
		return nil, err
	}
	cost := limits.Use{Kind: limits.MWs, N: 1}
	if err := c.charge(cost); err != nil {
		return nil, err
	}
	w, err := pd.AllocMW()
	if err != nil {
		c.account.Release(cost)
		return nil, err
	}
	h, err := c.added(&window{w})
	return &proto.AllocMWReply{Handle: h, RKey: w.RKey()}, err
}

func (c *session) queryMW(m *proto.Handle) (*proto.AllocMWReply, error) {
	w, err := get[*window](c, m.Handle)
	if err != nil {
		return nil, err
	}
	return &proto.AllocMWReply{Handle: m.Handle, RKey: w.RKey()}, nil
}

func (c *session) createAH(m *proto.CreateAH) (*proto.CreateAHReply, error) {
	pd, err := get[*domain](c, m.PD)
	if err != nil {
		return nil, err
	}
	cost := limits.Use{Kind: limits.AHs, N: 1}
	if err := c.charge(cost); err != nil {
		return nil, err
	}
	ah, err := pd.CreateAH(m.AV.Verbs())
	if err != nil {
		c.account.Release(cost)
		return nil, err
	}
	h, err := c.added(&address{ah})
	if err == nil {
		c.rings.handles.Store(h, ah)
	}
	return &proto.CreateAHReply{Handle: h, PMTU: uint32(ah.(*nic.AH).PMTU())}, err
}
