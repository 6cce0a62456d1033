// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/stream"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A peer that sends and takes no message, so that credits cannot be returned, keeps neither Read nor
// Close from returning.
func TestPeerThatTakesNothing(t *testing.T) {
	ctx, dev := testkit.Context(t), openLoop(t)
	hello := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16([]byte("SRS1"), 2), 1024)
	l, err := rdma.Listen(ctx, dev, "127.0.0.1:0", rdma.WithRecvBuffers(1), rdma.WithMaxMessage(1024), rdma.WithPrivate(hello))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type result struct {
		c   *rdma.Conn
		err error
	}
	accepted := make(chan result, 1)
	go func() {
		c, err := l.Accept(ctx)
		accepted <- result{c, err}
	}()
	s, err := stream.Dial(ctx, dev, l.Addr().String(), stream.WithWindow(2, 1024))
	if err != nil {
		t.Fatal(err)
	}
	peer := <-accepted
	if peer.err != nil {
		t.Fatal(peer.err)
	}
	defer peer.c.Close()
	const messages = 20
	go func() {
		for range messages {
			if _, err := peer.c.Do(ctx, &verbs.SendWR{Op: verbs.OpSendImm, Flags: verbs.Inline, Data: []byte{1}}); err != nil {
				return
			}
		}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n, buf := 0, make([]byte, 1); n < messages; n++ {
			if _, err := s.Read(buf); err != nil {
				t.Errorf("read %d: %v", n, err)
				break
			}
		}
		begin := time.Now()
		_ = s.Close() // it may say that the rest did not arrive
		t.Logf("Close took %v", time.Since(begin))
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal("Read or Close did not return")
	}
}
