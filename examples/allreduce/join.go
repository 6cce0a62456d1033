// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/compute"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Config are the properties of a node.
type Config struct {
	Listen string // "host:port" or ":port", where the previous node connects
	Next   string // "host:port" of the next node
	Rank   int    // number of this node, from 0 on; that of the next one is larger by 1, or 0
	Nodes  int    // number of nodes, at least 2

	// Vector is what this node adds, and has the sum afterwards: elements of Type, little-endian. All
	// nodes have the same length.
	Vector []byte
	Type   compute.Type

	// Executor adds in the NIC: its cores execute the tasks of the previous node. Nil: the program adds.
	// All nodes do the same.
	Executor *compute.Executor
}

func (c *Config) check() error {
	switch size := int(c.Type.Size()); {
	case !c.Type.Valid():
		return fmt.Errorf("ring: there is no type %d", c.Type)
	case c.Nodes < 2 || c.Rank < 0 || c.Rank >= c.Nodes:
		return fmt.Errorf("ring: rank %d of %d nodes: choose 0 to nodes - 1, and at least 2 nodes", c.Rank, c.Nodes)
	case len(c.Vector)%size != 0 || len(c.Vector)/size < c.Nodes:
		return fmt.Errorf("ring: a vector of %d bytes: give whole elements of %d bytes, at least one for each of %d nodes", len(c.Vector), size, c.Nodes)
	}
	return nil
}

// Ring is a node of a ring. One goroutine at a time calls its methods.
type Ring struct {
	config   Config
	parts    []part
	staging  []byte // parts of the previous node, one a step; none with an executor
	regions  []*rdma.Region
	own      *rdma.Region // the vector, for WRITEs to the next node
	prev     *rdma.Conn
	next     *rdma.Conn
	nextHas  hello
	tasks    *compute.Client // client to the next node; nil without an executor
	operand  compute.Operand // the vector, for tasks
	serving  chan error
	stop     context.CancelFunc
	listener *rdma.Listener
}

// part is a part of the vector: where it begins, and its length, in bytes.
type part struct{ at, n int }

// split divides elements into parts whose lengths differ by at most one element.
func split(length, size, parts int) []part {
	elements := length / size
	list := make([]part, parts)
	for i := range list {
		from, to := elements*i/parts, elements*(i+1)/parts
		list[i] = part{from * size, (to - from) * size}
	}
	return list
}

// hello is what a node tells the previous one when that has connected.
type hello struct {
	Rank, Nodes     int
	Bytes           int
	Type            compute.Type
	InNIC           bool
	Vector, Staging rdma.Remote
	TaskPort        uint16
}

// Join waits until the node before has connected and the one behind is reached. Nodes may start in any
// order; ctx bounds the wait.
func Join(ctx context.Context, dev verbs.Device, c Config) (*Ring, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	r := &Ring{config: c, parts: split(len(c.Vector), int(c.Type.Size()), c.Nodes)}
	if err := r.join(ctx, dev); err != nil {
		return nil, errors.Join(fmt.Errorf("ring: node %d: %w", c.Rank, err), r.Close())
	}
	return r, nil
}

func (r *Ring) join(ctx context.Context, dev verbs.Device) (err error) {
	if r.listener, err = rdma.Listen(ctx, dev, r.config.Listen); err != nil {
		return err
	}
	accepted := make(chan error, 1)
	go func() {
		var err error
		r.prev, err = r.listener.Accept(ctx)
		accepted <- err
	}()
	dialed := r.dial(ctx, dev)
	if dialed != nil {
		_ = r.listener.Close() // ends Accept
	}
	if err := errors.Join(dialed, <-accepted); err != nil {
		return err
	}
	if err := r.tell(ctx, dev); err != nil {
		return fmt.Errorf("the previous node: %w", err)
	}
	if err := r.learn(ctx, dev); err != nil {
		return fmt.Errorf("the next node: %w", err)
	}
	return nil
}

// retryDelay is the time between two attempts to reach the next node.
const retryDelay = 200 * time.Millisecond

// dial connects to the next node, which may not listen yet.
func (r *Ring) dial(ctx context.Context, dev verbs.Device) (err error) {
	for {
		if r.next, err = rdma.Dial(ctx, dev, r.config.Next); err == nil {
			return nil
		}
		var rejected *rdma.RejectedError
		if !errors.As(err, &rejected) && !errors.Is(err, cm.ErrTimeout) && !errors.Is(err, cm.ErrUnreachable) {
			return err
		}
		select {
		case <-time.After(retryDelay):
		case <-ctx.Done():
			return err
		}
	}
}

// tell makes the memory of this node accessible to the previous one, and tells it where that is.
func (r *Ring) tell(ctx context.Context, dev verbs.Device) error {
	h := hello{
		Rank: r.config.Rank, Nodes: r.config.Nodes, Bytes: len(r.config.Vector), Type: r.config.Type, InNIC: r.config.Executor != nil,
	}
	vector, err := r.register(r.prev, r.config.Vector)
	if err != nil {
		return err
	}
	r.own, h.Vector = vector, vector.Remote()
	if h.InNIC {
		if h.TaskPort, err = r.serve(ctx, dev); err != nil {
			return err
		}
	} else {
		if r.staging, err = rdma.Alloc(dev, len(r.config.Vector)); err != nil {
			return err
		}
		staging, err := r.register(r.prev, r.staging)
		if err != nil {
			return err
		}
		h.Staging = staging.Remote()
	}
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return r.prev.Send(ctx, b)
}

func (r *Ring) register(c *rdma.Conn, b []byte) (*rdma.Region, error) {
	x, err := c.Register(b, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
	if err == nil {
		r.regions = append(r.regions, x)
	}
	return x, err
}

// serve executes the tasks of the previous node, and returns the port.
func (r *Ring) serve(ctx context.Context, dev verbs.Device) (port uint16, err error) {
	var memory compute.Regions
	if err := memory.Add(r.own, r.config.Vector, verbs.AccessRemoteRead|verbs.AccessRemoteWrite); err != nil {
		return 0, err
	}
	host, _, err := net.SplitHostPort(r.config.Listen)
	if err != nil {
		return 0, err
	}
	s, err := compute.Listen(ctx, dev, net.JoinHostPort(host, "0"), compute.ServerConfig{Executor: r.config.Executor, Memory: &memory, MaxClients: 1})
	if err != nil {
		return 0, err
	}
	serving, stop := context.WithCancel(context.Background())
	r.stop, r.serving = stop, make(chan error, 1)
	go func() { r.serving <- s.Serve(serving) }()
	return s.Addr().(rdma.Addr).Port(), nil
}

// learn gets the hello of the next node, and connects to its cores.
func (r *Ring) learn(ctx context.Context, dev verbs.Device) error {
	m, err := r.next.RecvMessage(ctx)
	if err != nil {
		return err
	}
	err = json.Unmarshal(m.Bytes(), &r.nextHas)
	if err = errors.Join(err, m.Release()); err != nil {
		return err
	}
	h, c := &r.nextHas, &r.config
	switch {
	case h.Nodes != c.Nodes || h.Rank != (c.Rank+1)%c.Nodes:
		return fmt.Errorf("it has rank %d of %d nodes, and should have %d of %d", h.Rank, h.Nodes, (c.Rank+1)%c.Nodes, c.Nodes)
	case h.Bytes != len(c.Vector) || h.Type != c.Type:
		return fmt.Errorf("it has a vector of %d bytes of %s, and this node has %d bytes of %s", h.Bytes, h.Type, len(c.Vector), c.Type)
	case h.InNIC != (c.Executor != nil):
		return errors.New("one of the nodes adds in the NIC and the other does not: choose the same for all")
	case !h.InNIC:
		return nil
	}
	host, _, err := net.SplitHostPort(c.Next)
	if err != nil {
		return err
	}
	if r.tasks, err = compute.Dial(ctx, dev, net.JoinHostPort(host, strconv.Itoa(int(h.TaskPort))), compute.ClientConfig{}); err != nil {
		return err
	}
	r.operand, err = r.tasks.Register(c.Vector, c.Type, compute.Shape{1})
	return err
}

// Close leaves the ring. The vector belongs to the caller again.
func (r *Ring) Close() error {
	var errs []error
	if r.tasks != nil {
		errs = append(errs, r.tasks.Close())
	}
	for _, c := range []*rdma.Conn{r.next, r.prev} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	if r.stop != nil {
		r.stop()
		<-r.serving
	}
	for _, x := range r.regions {
		errs = append(errs, x.Deregister())
	}
	if r.staging != nil {
		errs = append(errs, rdma.Free(r.prev.Device(), r.staging))
	}
	if r.listener != nil {
		if err := r.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
