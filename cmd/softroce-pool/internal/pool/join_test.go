// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// onFirst is a writer that calls a function at its first write.
type onFirst struct {
	once sync.Once
	call func()
}

func (w *onFirst) Write(b []byte) (int, error) {
	w.once.Do(w.call)
	return len(b), nil
}

// A node that is interrupted ends, whether it is in an access or not. The interruptions come at several times
// after it has joined, and most of them in an access.
func TestJoinerInterrupted(t *testing.T) {
	b, _ := bench(t, 4<<20)
	for delay := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		config := b.Node
		config.Demand = 4 << 20
		j := joiner{
			Device: b.Device, Server: b.Server, Node: config, Timeout: b.Timeout, Check: true,
			Out: &onFirst{call: func() { time.AfterFunc(time.Duration(delay)*time.Millisecond, cancel) }},
		}
		ended := make(chan error, 1)
		go func() { ended <- j.Run(ctx) }()
		err := testkit.Receive(t, fmt.Sprintf("the node ends, interrupted %d ms after it had joined", delay), ended)
		// The access that was interrupted may fail the connection before the server has the message.
		var failed *rdma.Error
		if err != nil && !errors.As(err, &failed) {
			t.Errorf("interrupted after %d ms: %v", delay, err)
		}
		cancel()
	}
}

// A node that the server has removed ends without an error, whether it is in an access or not.
func TestJoinerRemoved(t *testing.T) {
	b, _ := bench(t, 4<<20)
	for delay := range 20 {
		config := b.Node
		config.Demand = 4 << 20
		var ticket node.Ticket
		removed := make(chan error, 1)
		remove := func() {
			_, err := node.Remove(t.Context(), b.Device, b.Server, config.Name, func(net.Addr) (node.Ticket, error) { return ticket, nil })
			removed <- err
		}
		j := joiner{
			Device: b.Device, Server: b.Server, Node: config, Timeout: b.Timeout, Check: true,
			Out:    &onFirst{call: func() { time.AfterFunc(time.Duration(delay)*time.Millisecond, remove) }},
			Joined: func(n *node.Node) { ticket = n.Ticket() },
		}
		if err := j.Run(t.Context()); err != nil {
			t.Errorf("removed after %d ms: %v", delay, err)
		}
		if err := <-removed; err != nil {
			t.Error(err)
		}
	}
}
