// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Reopen opens the device again after its end, or returns an error if that is not possible now.
type Reopen func(ctx context.Context) (verbs.Device, error)

// ended reports whether an error says that the device has ended, as at an upgrade of the agent.
func ended(err error) bool { return errors.Is(err, verbs.ErrGone) || errors.Is(err, verbs.ErrClosed) }

// retryTime is the time between two attempts to open a device that no agent serves.
const retryTime = 100 * time.Millisecond

// again opens a device until that succeeds, fails for another reason than that no agent serves it now, or ctx
// ends. During an upgrade no agent serves for about a second.
func again(ctx context.Context, open Reopen) (verbs.Device, error) {
	tick := time.NewTicker(retryTime)
	defer tick.Stop()
	for {
		dev, err := open(ctx)
		if err == nil || !errors.Is(err, rdma.ErrNotServing) && !ended(err) {
			return dev, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// Server listens at an address and answers all clients.
type Server struct {
	Device    verbs.Device // present device: another one after its end; the caller closes it after Run
	Address   string       // "host:port" or ":port"
	Options   []rdma.Option
	Reopen    Reopen            // nil: the end of the device ends Run
	Listening func(at net.Addr) // callback for each start of listening, also after the device was opened again
	Tell      func(line string) // callback when a client comes and when it goes
}

// reopenTime is how long a server waits for an agent that serves its device again.
const reopenTime = time.Minute

// Run serves until ctx ends, which is no error.
func (s *Server) Run(ctx context.Context) error {
	for {
		err := s.serve(ctx)
		if ctx.Err() != nil || err == nil {
			return nil
		}
		if s.Reopen == nil || !ended(err) {
			return err
		}
		s.Tell(fmt.Sprintf("%v: opening it again", err))
		_ = s.Device.Close() // it has ended
		bounded, cancel := context.WithTimeout(ctx, reopenTime)
		dev, failed := again(bounded, s.Reopen)
		cancel()
		if failed != nil {
			return errors.Join(err, failed)
		}
		s.Device = dev
	}
}

func (s *Server) serve(ctx context.Context) error {
	l, err := rdma.Listen(ctx, s.Device, s.Address, s.Options...)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", s.Address, err)
	}
	defer l.Close()
	s.Listening(l.Addr())
	return Serve(ctx, l, s.Tell)
}
