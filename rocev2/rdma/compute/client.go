// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// ClientConfig are the properties of a Client. The zero value is the default.
type ClientConfig struct {
	Depth   int           // tasks that can be sent and not answered; 0 for DefaultDepth
	Options []rdma.Option // options of the connection: WithLocal and WithAttr
}

// Client sends tasks to a Server. All methods may be called concurrently.
type Client struct {
	end   *end
	link  *rdma.Link
	tasks *task.Client

	mu      sync.Mutex
	regions []verbs.MR
	closed  bool
}

// Dial connects to a server at "host:port". A server at its limit of clients is a *rdma.RejectedError.
func Dial(ctx context.Context, dev verbs.Device, address string, c ClientConfig) (*Client, error) {
	e, err := newEnd(dev, c.Depth)
	if err != nil {
		return nil, fmt.Errorf("compute: %w", err)
	}
	k := &Client{end: e}
	if k.tasks, err = task.NewClient(task.ClientConfig{PD: e.pd, QP: e.qp, CQ: e.cq, Depth: c.Depth}); err != nil {
		return nil, errors.Join(err, e.close())
	}
	if k.link, err = rdma.Connect(ctx, dev, address, e.qp, c.Options...); err != nil {
		return nil, errors.Join(err, k.tasks.Close(), e.close())
	}
	return k, nil
}

// Do sends a task and waits for its answer. The error is a *Error if the task has failed at the
// server. If ctx ends first, the task may still be executed, and its result be written.
func (k *Client) Do(ctx context.Context, d *Descriptor) error {
	err := k.tasks.Do(ctx, d)
	var status *Error
	if err == nil || errors.As(err, &status) || ctx.Err() != nil {
		return err
	}
	if ended := k.link.Err(); ended != nil {
		return fmt.Errorf("compute: the connection to %s has ended: %w", k.link.RemoteAddr(), ended)
	}
	return err
}

// Register registers memory of this node for tasks: operands are read from it, results written to it,
// until Close. The operand that it returns is all of the memory; its length is that of the shape.
func (k *Client) Register(b []byte, typ Type, shape Shape) (Operand, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return Operand{}, net.ErrClosed
	}
	mr, err := k.end.pd.RegMR(b, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
	if err != nil {
		return Operand{}, fmt.Errorf("compute: %w", err)
	}
	k.regions = append(k.regions, mr)
	return Operand{VA: mr.VA(), Length: uint32(len(b)), Key: mr.RKey(), Type: typ, Shape: shape, Origin: true}, nil
}

// LocalAddr returns the address of this end.
func (k *Client) LocalAddr() net.Addr { return k.link.LocalAddr() }

// RemoteAddr returns the address of the server.
func (k *Client) RemoteAddr() net.Addr { return k.link.RemoteAddr() }

// Close ends the connection. The server cancels the tasks that it has not answered; no memory of Register
// is accessed any more, unless the error wraps rdma.ErrNoAnswer.
func (k *Client) Close() error {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return net.ErrClosed
	}
	k.closed = true
	regions := k.regions
	k.mu.Unlock()
	return errors.Join(k.link.Close(), rdma.Bounded(func() error {
		errs := []error{k.tasks.Close()}
		for _, mr := range regions {
			errs = append(errs, mr.Deregister())
		}
		return errors.Join(append(errs, k.end.close())...)
	}))
}
