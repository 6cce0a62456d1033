// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Port is the port of commands and examples.
const Port = 7176

// DefaultMaxClients is the MaxClients of a ServerConfig without one.
const DefaultMaxClients = 64

// ServerConfig are the properties of a Server.
type ServerConfig struct {
	// Executor has the cores, the kernels, and the limit of the bytes of a task.
	Executor *Executor

	// Memory is what tasks may access on this node, by rkey; nil for nothing.
	Memory Memory

	// Depth is how many tasks of a client can be received and not answered; 0 for DefaultDepth.
	// Further ones wait at the client.
	Depth int

	// MaxClients is how many clients can be connected; 0 for DefaultMaxClients. Others are rejected.
	MaxClients int

	// Report is called when a client has connected (err is nil) and when its connection has ended (err
	// is the reason), by any goroutine; nil for nobody.
	Report func(client net.Addr, err error)
}

// Server executes tasks of clients.
type Server struct {
	config   ServerConfig
	dev      verbs.Device
	listener *rdma.Listener
	clients  atomic.Int32
	all      sync.WaitGroup
}

// Listen offers tasks at "host:port" or ":port" of a device, when Serve runs.
func Listen(ctx context.Context, dev verbs.Device, address string, c ServerConfig) (*Server, error) {
	if c.MaxClients == 0 {
		c.MaxClients = DefaultMaxClients
	}
	if c.Report == nil {
		c.Report = func(net.Addr, error) {}
	}
	if c.Executor == nil || c.MaxClients < 0 {
		return nil, errors.New("compute: a server needs an Executor, and MaxClients that is not negative")
	}
	l, err := rdma.Listen(ctx, dev, address)
	if err != nil {
		return nil, err
	}
	return &Server{config: c, dev: dev, listener: l}, nil
}

// Addr returns the address of the server.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve accepts clients and executes their tasks until ctx ends or the device does, and returns why.
// All connections have ended then, and kernels in execution have returned.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.all.Wait()
	defer s.listener.Close()
	defer cancel()
	for {
		r, err := s.listener.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
		if n := s.clients.Add(1); int(n) > s.config.MaxClients {
			s.clients.Add(-1)
			_ = r.Reject([]byte(fmt.Sprintf("the server has %d clients already", s.config.MaxClients))) // the peer may have given up
			continue
		}
		s.all.Go(func() {
			defer s.clients.Add(-1)
			if err := s.serve(ctx, r); !errors.Is(err, errNotAccepted) {
				s.config.Report(r.RemoteAddr(), err)
			}
		})
	}
}

// errNotAccepted: a request did not become a connection.
var errNotAccepted = errors.New("not accepted")

// serve executes the tasks of a client until its connection ends, and returns why.
func (s *Server) serve(ctx context.Context, r *rdma.Request) error {
	e, err := newEnd(s.dev, s.config.Depth)
	if err != nil {
		_ = r.Reject([]byte("the server has no room for another client"))
		return errors.Join(errNotAccepted, err)
	}
	defer e.close()
	tasks, err := task.NewServer(task.ServerConfig{
		Executor: s.config.Executor, PD: e.pd, QP: e.qp, CQ: e.cq, Memory: s.config.Memory, Depth: s.config.Depth,
	})
	if err != nil {
		_ = r.Reject([]byte("the server has no room for another client"))
		return errors.Join(errNotAccepted, err)
	}
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	link, err := r.AcceptQP(ctx, e.qp)
	if err != nil {
		cancel()
		_ = tasks.Serve(serving) // releases what it has
		return errors.Join(errNotAccepted, err)
	}
	defer link.Close()
	defer context.AfterFunc(ctx, cancel)()
	go func() {
		<-link.Done()
		cancel()
	}()
	s.config.Report(r.RemoteAddr(), nil)
	err = tasks.Serve(serving)
	if ended := link.Err(); ended != nil {
		return ended
	}
	return err
}
