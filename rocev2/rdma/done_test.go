// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"errors"
	"net"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

// Done closes while no goroutine waits in a method of the connection: when the operation has completed, and
// when the connection ends.
func TestDoneWithoutWait(t *testing.T) {
	dev := openLoop(t, cmpeer.Config{})
	a, b := connect(t, dev, rdma.WithRecvBuffers(1))
	ctx := testkit.Context(t)
	start := func() *rdma.Op {
		op, err := a.Start(ctx, &verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Inline, Data: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		return op
	}
	op := start()
	first := op.Done()
	if op.Done() != first {
		t.Error("a second call returns another channel")
	}
	testkit.Receive(t, "an operation", first)
	if c, err := op.Wait(ctx); err != nil || c.Status != verbs.StatusSuccess {
		t.Errorf("%+v, %v", c, err)
	}
	testkit.Receive(t, "an operation that has completed", op.Done())

	blocked := start() // the only receive buffer is full
	done := blocked.Done()
	select {
	case <-done:
		t.Fatal("Done is closed, and the peer has no receive buffer")
	default:
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	testkit.Receive(t, "an operation of a connection that was closed", done)
	if _, err := blocked.Wait(ctx); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// The same after the end of the device.
func TestDoneAfterDevice(t *testing.T) {
	dev := openLoop(t, cmpeer.Config{})
	a, _ := connect(t, dev, rdma.WithRecvBuffers(1))
	ctx := testkit.Context(t)
	var ops []*rdma.Op
	for range 2 {
		op, err := a.Start(ctx, &verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Inline, Data: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, op)
	}
	done := ops[1].Done()
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "after the end of the device", done)
}

// The status of a failed work request is an error that is found in that of the connection.
func TestStatusIsError(t *testing.T) {
	a, b := connect(t, openLoop(t, cmpeer.Config{}))
	defer a.Close()
	defer b.Close()
	err := a.Write(testkit.Context(t), []byte("x"), rdma.Remote{Addr: 8, RKey: 77, Len: 8})
	if !errors.Is(err, verbs.StatusRemoteAccess) || errors.Is(err, verbs.StatusRetryExceeded) {
		t.Error(err)
	}
}
