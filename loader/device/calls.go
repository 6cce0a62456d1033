// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// do executes a request and returns the body of its reply, and descriptors for it.
func (c *client) do(t proto.Type, req any, fds []int) (reply any, give []int, err error) {
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
	case proto.TCreateCQ:
		return c.createCQ(req.(*proto.CreateCQ))
	case proto.TCreateSRQ:
		return c.createSRQ(req.(*proto.CreateSRQ))
	case proto.TCreateQP:
		return c.createQP(req.(*proto.CreateQP))
	case proto.TSetSRQLimit:
		err = c.setLimit(req.(*proto.SRQLimit))
	case proto.TModifyQP:
		err = c.modify(req.(*proto.ModifyQP))
	case proto.TQueryQP:
		reply, err = c.query(req.(*proto.Handle))
	default:
		err = c.end(t, req)
	}
	return reply, nil, err
}

// end executes the requests that destroy an object.
func (c *client) end(t proto.Type, req any) error {
	m, ok := req.(*proto.Handle)
	if !ok {
		return fmt.Errorf("%w: type %d", proto.ErrProtocol, t)
	}
	switch t {
	case proto.TFreePD:
		return drop[*domain](c, m.Handle)
	case proto.TDropArena:
		return drop[*arena](c, m.Handle)
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
		c.handles.Delete(m.Handle)
		return drop[*address](c, m.Handle)
	}
	return fmt.Errorf("%w: type %d", proto.ErrProtocol, t)
}

// settle has the engine take what the process has posted before this request. A process that goes on
// posting does not delay it without bound.
func (c *client) settle() {
	c.s.dev.InLoop(func() {
		for i := 0; i < settleRounds && c.take() > 0; i++ {
		}
	})
}

// settleRounds is how often settle takes: more than all rings of an honest process hold, mostly.
const settleRounds = 64

func (c *client) port() (*proto.PortReply, error) {
	p, err := c.s.dev.Port()
	if err != nil {
		return nil, err
	}
	r := &proto.PortReply{MTU: uint32(p.MTU), Count: uint32(min(len(p.GIDs), proto.MaxGIDs))}
	if p.Active {
		r.Active = 1
	}
	for i := range r.Count {
		r.GIDs[i] = proto.AddrOf(p.GIDs[i])
	}
	return r, nil
}

// added gives an object a handle, or destroys it.
func (c *client) added(o object) (uint32, error) {
	h, err := c.add(o)
	if err != nil {
		if e := c.destroy(o); e != nil {
			c.s.log.Error("an object that was refused cannot be destroyed", "pid", c.pid, "err", e)
		}
	}
	return h, err
}

func (c *client) allocPD() (*proto.Handle, error) {
	pd, err := c.s.dev.AllocPD()
	if err != nil {
		return nil, err
	}
	h, err := c.added(&domain{pd.(*nic.PD)})
	return &proto.Handle{Handle: h}, err
}

func (c *client) addArena(m *proto.AddArena, fds []int) (*proto.Handle, error) {
	if len(fds) != 1 {
		return nil, fmt.Errorf("%w: an arena is one descriptor, not %d", proto.ErrProtocol, len(fds))
	}
	if m.Bytes > 1<<46 {
		return nil, fmt.Errorf("%w: an arena of %d bytes", proto.ErrMemory, m.Bytes)
	}
	if err := c.account.take(resBytes, int64(m.Bytes)); err != nil {
		return nil, err
	}
	a, err := openArena(fds[0], m.Bytes)
	if err != nil {
		c.account.give(resBytes, int64(m.Bytes))
		return nil, err
	}
	h, err := c.added(a)
	return &proto.Handle{Handle: h}, err
}

func (c *client) regArena(m *proto.RegArena) (*proto.RegReply, error) {
	pd, err := get[*domain](c, m.PD)
	if err != nil {
		return nil, err
	}
	a, err := get[*arena](c, m.Arena)
	if err != nil {
		return nil, err
	}
	b, err := a.part(m.Offset, m.Length)
	if err != nil {
		return nil, err
	}
	a.regions.Add(1)
	r, err := c.register(pd, mr.Spec{Host: b, VA: m.VA}, m.Access, &region{arena: a})
	if err != nil {
		a.regions.Add(-1)
	}
	return r, err
}

// register makes a region. o is its object, without the region.
func (c *client) register(pd *domain, s mr.Spec, access uint32, o *region) (*proto.RegReply, error) {
	if access > 0xff {
		return nil, fmt.Errorf("%w: %#x", verbs.ErrAccess, access)
	}
	if err := c.account.take(resMRs, 1); err != nil {
		return nil, err
	}
	s.Access = verbs.Access(access)
	var err error
	if o.r, err = pd.Register(s); err != nil {
		c.account.give(resMRs, 1)
		return nil, err
	}
	h, err := c.add(o)
	if err != nil {
		c.account.give(resMRs, 1)
		_ = o.r.Deregister() // nothing is bound to it yet
		return nil, err
	}
	return &proto.RegReply{Handle: h, LKey: o.r.LKey(), RKey: o.r.RKey()}, nil
}

func (c *client) passMemory(fds []int) error {
	if len(fds) != 1 {
		return fmt.Errorf("%w: memory of a process is one descriptor, not %d", proto.ErrProtocol, len(fds))
	}
	if c.s.conf.Memory == nil {
		return fmt.Errorf("%w: %w", proto.ErrMemory, errNoMemory)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.memory != nil {
		return fmt.Errorf("%w: the memory was passed already", proto.ErrProtocol)
	}
	m, err := c.s.conf.Memory(fds[0], &unix.Ucred{Pid: int32(c.pid), Uid: c.uid})
	if err != nil {
		return fmt.Errorf("%w: %w", proto.ErrMemory, err)
	}
	c.memory = m
	return nil
}

func (c *client) regMemory(m *proto.RegMemory) (*proto.RegReply, error) {
	pd, err := get[*domain](c, m.PD)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	memory := c.memory
	c.mu.Unlock()
	if memory == nil {
		return nil, fmt.Errorf("%w: %w", proto.ErrMemory, errNoMemory)
	}
	s, end, err := memory.Region(m.Addr, m.Length, verbs.Access(m.Access))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", proto.ErrMemory, err)
	}
	r, err := c.register(pd, s, m.Access, &region{close: end})
	if err != nil && end != nil {
		end()
	}
	return r, err
}

func (c *client) allocMW(m *proto.Handle) (*proto.AllocMWReply, error) {
	pd, err := get[*domain](c, m.Handle)
	if err != nil {
		return nil, err
	}
	if err := c.account.take(resMRs, 1); err != nil {
		return nil, err
	}
	w, err := pd.AllocMW()
	if err != nil {
		c.account.give(resMRs, 1)
		return nil, err
	}
	h, err := c.added(&window{w})
	return &proto.AllocMWReply{Handle: h, RKey: w.RKey()}, err
}

func (c *client) queryMW(m *proto.Handle) (*proto.AllocMWReply, error) {
	w, err := get[*window](c, m.Handle)
	if err != nil {
		return nil, err
	}
	return &proto.AllocMWReply{Handle: m.Handle, RKey: w.RKey()}, nil
}

func (c *client) createAH(m *proto.CreateAH) (*proto.Handle, error) {
	pd, err := get[*domain](c, m.PD)
	if err != nil {
		return nil, err
	}
	ah, err := pd.CreateAH(m.AV.Verbs())
	if err != nil {
		return nil, err
	}
	h, err := c.added(&address{ah})
	if err == nil {
		c.handles.Store(h, ah)
	}
	return &proto.Handle{Handle: h}, err
}
