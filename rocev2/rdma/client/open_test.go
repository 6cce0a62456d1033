// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// listen has the socket of a device server, and passes connections to a function of the test. Without a function it
// accepts none, as an agent that was stopped.
func listen(t *testing.T, ifname string, connected func(*net.UnixConn)) (runDir string) {
	t.Helper()
	runDir = testkit.SocketDir(t)
	l := testkit.Must1(net.ListenUnix("unixpacket", &net.UnixAddr{Name: proto.SocketPath(runDir, ifname), Net: "unixpacket"}))(t)
	var accepting sync.WaitGroup
	t.Cleanup(func() { l.Close(); accepting.Wait() })
	if connected != nil {
		accepting.Go(func() {
			for c, err := l.AcceptUnix(); err == nil; c, err = l.AcceptUnix() {
				connected(c)
			}
		})
	}
	return runDir
}

// lossy answers a hello, and its descriptors are lost.
func lossy(c *net.UnixConn) {
	defer c.Close()
	b := make([]byte, proto.MaxMessage)
	if _, _, err := proto.Read(c, b); err != nil {
		return
	}
	hello := proto.Header{Type: proto.THello | proto.Reply, Seq: 1}
	_ = proto.Write(c, proto.Append(nil, hello, &proto.HelloReply{}))
	_, _, _ = proto.Read(c, b)
}

// A process that may open too few files is told so.
func TestOpenTooFewFiles(t *testing.T) {
	_, err := client.Open(t.Context(), "x0", client.Config{RunDir: listen(t, "x0", lossy)})
	if !errors.Is(err, proto.ErrDescriptors) {
		t.Error(err)
	}
}

// Open ends although its context does not.
func TestOpenNoAnswer(t *testing.T) {
	ctx := testkit.Context(t)
	_, err := client.Open(ctx, "x0", client.Config{RunDir: listen(t, "x0", nil), OpenLimit: time.Millisecond})
	if !errors.Is(err, client.ErrNoAnswer) || ctx.Err() != nil {
		t.Error(err)
	}
}

// Open whose context ends returns the error of the context.
func TestOpenContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := client.Open(ctx, "x0", client.Config{RunDir: listen(t, "x0", nil)})
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.ErrNoAnswer) {
		t.Error(err)
	}
}
