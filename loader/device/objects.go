// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/mr"
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
	region  struct {
		r     *mr.Region
		arena *arena // nil: other memory
		close func() // of other memory, may be nil
	}
	window struct{ verbs.MW }
)

func (*queuePair) rank() int       { return 0 }
func (*window) rank() int          { return 1 }
func (*region) rank() int          { return 2 }
func (*arena) rank() int           { return 3 }
func (*sharedQueue) rank() int     { return 3 }
func (*completionQueue) rank() int { return 3 }
func (*address) rank() int         { return 3 }
func (*domain) rank() int          { return 4 }

// add gives an object a handle. The caller has charged it, except for the object itself.
func (c *client) add(o object) (uint32, error) {
	if err := c.account.take(resObjects, 1); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		c.last++
		if _, taken := c.objects[c.last]; !taken && c.last != 0 {
			c.objects[c.last] = o
			return c.last, nil
		}
	}
}

// get returns the object of a handle, which must be of type T.
func get[T object](c *client, handle uint32) (o T, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.objects[handle].(T)
	if !ok {
		return o, fmt.Errorf("%w: handle %d", proto.ErrHandle, handle)
	}
	return o, nil
}

// drop destroys the object of a handle.
func drop[T object](c *client, handle uint32) error {
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
	c.account.give(resObjects, 1)
	return nil
}

// inOrder removes all objects and returns them in the order in which they can be destroyed.
func (c *client) inOrder() (all []object) {
	c.mu.Lock()
	for h, o := range c.objects {
		all = append(all, o)
		delete(c.objects, h)
		c.handles.Delete(h)
	}
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b object) int { return a.rank() - b.rank() })
	c.account.give(resObjects, int64(len(all)))
	return all
}

// destroy ends an object and gives back what it was charged for.
func (c *client) destroy(o object) error {
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
		c.account.give(resMRs, 1)
	case *region:
		return c.destroyRegion(o)
	case *arena:
		if n := o.regions.Load(); n != 0 {
			return fmt.Errorf("arena: %w by %d regions", verbs.ErrBusy, n)
		}
		c.account.give(resBytes, int64(len(o.b)))
		o.close()
	case *address:
		return o.Destroy()
	case *domain:
		return o.Free()
	}
	return nil
}

func (c *client) destroyRegion(o *region) error {
	if err := o.r.Deregister(); err != nil {
		return err
	}
	c.account.give(resMRs, 1)
	if o.arena != nil {
		o.arena.regions.Add(-1)
	}
	if o.close != nil {
		o.close()
	}
	return nil
}

// Memory is memory of another process, which the server reads and writes through a descriptor that
// the process has passed.
type Memory interface {
	// Region returns how memory of the process is registered: PD and Access are set by the
	// caller. close, if it is not nil, is called after the region was deregistered.
	Region(addr, n uint64, access verbs.Access) (s mr.Spec, close func(), err error)
	Close()
}

// OpenMemory makes a Memory of a descriptor, which it duplicates if it keeps it.
type OpenMemory func(fd int, peer *unix.Ucred) (Memory, error)

var errNoMemory = errors.New("this server registers memory of arenas only: allocate it with the client's Alloc")
