// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/rping"
)

// MaxClients is how many clients a server has at a time. More wait until one ends, or give up.
const MaxClients = 64

// Serve answers all clients of a listener until ctx ends, which is no error. tell gets a line when a
// client comes and when it goes.
func Serve(ctx context.Context, l *rdma.Listener, tell func(line string)) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	room := make(chan struct{}, MaxClients)
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		c, err := l.Accept(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		clients.Go(func() {
			defer func() { <-room }()
			answer(ctx, c, tell)
		})
	}
}

// answer answers one client until it ends.
func answer(ctx context.Context, c *rdma.Conn, tell func(string)) {
	peer := c.RemoteAddr()
	s, err := rping.NewServer(c)
	if err != nil {
		tell(fmt.Sprintf("%s: %v", peer, errors.Join(err, c.Close())))
		return
	}
	defer s.Close()
	tell(fmt.Sprintf("%s: connected", peer))
	trips, bytes := uint64(0), 0
	for {
		data, err := s.Answer(ctx)
		switch {
		case err == nil:
			trips, bytes = trips+1, len(data)
			continue
		case errors.Is(err, io.EOF):
			tell(fmt.Sprintf("%s: disconnected after %s, the last one of %d bytes", peer, roundTrips(trips), bytes))
		case ctx.Err() != nil:
			tell(fmt.Sprintf("%s: interrupted after %s", peer, roundTrips(trips)))
		default:
			tell(fmt.Sprintf("%s: given up after %s: %v", peer, roundTrips(trips), err))
		}
		return
	}
}
