// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/mr/clientmem"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// object is what a handle of a process stands for.
type object interface{ rank() int }

// The kinds of objects that are not in queue.go. rank is the order in which a process's objects are
// destroyed: what others use comes last.
type (
	domain  struct{ *nic.PD }
	address struct{ verbs.AH }
	window  struct{ verbs.MW }
	region  struct {
		r     verbs.MR     // memory region, or a *nic.Distribution
		arena *arenaMemory // nil: memory of the process
		cost  []limits.Use
	}
	arenaMemory struct {
		*clientmem.Arena
		regions atomic.Int32
		cost    []limits.Use
	}
)

func (*queuePair) rank() int       { return 0 }
func (*window) rank() int          { return 1 }
func (*region) rank() int          { return 2 }
func (*arenaMemory) rank() int     { return 3 }
func (*sharedQueue) rank() int     { return 3 }
func (*completionQueue) rank() int { return 3 }
func (*address) rank() int         { return 3 }
func (*domain) rank() int          { return 4 }

// add gives an object a handle. The caller has charged it.
func (c *session) add(o object) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.objects) >= proto.MaxObjects {
		return 0, fmt.Errorf("%w objects: a process has %d", verbs.ErrTooMany, proto.MaxObjects)
	}
	for {
		c.last++
		if _, taken := c.objects[c.last]; !taken && c.last != 0 {
			c.objects[c.last] = o
			return c.last, nil
		}
	}
}

// get returns the object of a handle, which must be of type T.
func get[T object](c *session, handle uint32) (o T, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.objects[handle].(T)
	if !ok {
		return o, fmt.Errorf("%w: handle %d", proto.ErrHandle, handle)
	}
	return o, nil
}

// drop destroys the object of a handle.
func drop[T object](c *session, handle uint32) error {
	o, err := get[T](c, handle)
	if err != nil {
		return err
	}
	if err := c.destroy(o); err != nil {
		return err
	}
	c.mu.Lock()
	delete(c.objects, handle)
	c.mu.Unlock()
	return nil
}

// inOrder removes all objects and returns them in the order in which they can be destroyed.
func (c *session) inOrder() (all []object) {
	c.mu.Lock()
	for h, o := range c.objects {
		all = append(all, o)
		delete(c.objects, h)
		c.rings.handles.Delete(h)
	}
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b object) int { return a.rank() - b.rank() })
	return all
}

// destroy ends an object and gives back what it was charged for.
func (c *session) destroy(o object) error {
	switch o := o.(type) {
	case *queuePair:
		return c.destroyQP(o)
	case *sharedQueue:
		return c.destroySRQ(o)
	case *completionQueue:
		return c.destroyCQ(o)
	case *window:
		if err := o.Free(); err != nil {
			return err
		}
		c.account.Release(limits.Use{Kind: limits.MWs, N: 1})
	case *region:
		return c.destroyRegion(o)
	case *arenaMemory:
		if n := o.regions.Load(); n != 0 {
			return fmt.Errorf("arena: %w by %d regions", verbs.ErrBusy, n)
		}
		err := o.Close()
		c.account.Release(o.cost...)
		return err
	case *address:
		if err := o.Destroy(); err != nil {
			return err
		}
		c.account.Release(limits.Use{Kind: limits.AHs, N: 1})
	case *domain:
		return o.Free()
	}
	return nil
}

func (c *session) destroyRegion(o *region) error {
	if err := o.r.Deregister(); err != nil {
		return err
	}
	c.account.Release(o.cost...)
	if o.arena != nil {
		o.arena.regions.Add(-1)
	}
	return nil
}
