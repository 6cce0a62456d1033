// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// manyDials is how many connections a process makes at once: many times what the server executes at a
// time (proto.MaxWaiting), and more than a listener's backlog.
const manyDials = 200

// A process may make as many connections at once as it likes, over a server and in its own engine.
func TestManyDialsAtOnce(t *testing.T) {
	t.Run("server", func(t *testing.T) {
		_, dir := serve(t, device.Config{})
		dialMany(t, open(t, dir), open(t, dir))
	})
	t.Run("loopback", func(t *testing.T) {
		d := devices.Loopback(t)
		dialMany(t, d, d)
	})
}

func dialMany(t *testing.T, active, passive verbs.Device) {
	ctx, cancel := context.WithCancel(testkit.Context(t))
	defer cancel()
	small := []rdma.Option{rdma.WithRecvBuffers(1), rdma.WithSendDepth(1), rdma.WithMaxMessage(64)}
	l, err := rdma.Listen(ctx, passive, "127.0.0.1:0", append(small, rdma.WithBacklog(manyDials))...)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var all sync.WaitGroup
	for range manyDials {
		all.Go(func() { // one goroutine for each request, so that the server has many calls at once, too
			c, err := l.Accept(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			m, err := c.RecvMessage(ctx)
			if err == nil {
				err = c.Send(ctx, m.Bytes())
			}
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := c.RecvMessage(ctx); !errors.Is(err, io.EOF) {
				t.Errorf("after the last message: %v", err)
			}
		})
		all.Go(func() {
			c, err := rdma.Dial(ctx, active, l.Addr().String(), small...)
			if err != nil {
				t.Error(err)
				cancel() // nobody waits for its connection
				return
			}
			defer c.Close()
			answer := make([]byte, 64)
			if err := c.Send(ctx, []byte("hello")); err != nil {
				t.Error(err)
			} else if n, err := c.Recv(ctx, answer); err != nil || string(answer[:n]) != "hello" {
				t.Errorf("%q, %v", answer[:n], err)
			}
		})
	}
	all.Wait()
}
