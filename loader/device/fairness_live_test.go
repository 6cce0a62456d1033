// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A process that rings and signals without pause goes on being served, with its entries and its calls, and so
// does another process.
func TestFloodIsServed(t *testing.T) {
	_, dir := serve(t, device.Config{})
	other := newBystander(t, dir)
	v := dial(t, dir).hello().queuePair()
	v.connect()
	var stop atomic.Bool
	var storm sync.WaitGroup
	defer storm.Wait()
	defer stop.Store(true)
	storm.Go(func() {
		b := make([]byte, 8)
		for !stop.Load() {
			for i := range uint32(ring.Queues) {
				v.doorbell.Set(i)
			}
			_, _ = unix.Write(v.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
			_, _ = unix.Read(v.wake, b)
		}
	})
	for i := range uint32(10) {
		word(v.sendMem, 0).Store(i + 1) // no operation: it ends the queue pair, and the others are flushed
		v.completion()
		other.works(t)
	}
	m := &proto.ModifyQP{Handle: v.qp.Handle, Mask: uint32(verbs.MaskState), Attr: proto.AttrOf(verbs.Attr{State: verbs.StateReset})}
	if _, err := v.call(proto.TModifyQP, m, nil); err != nil {
		t.Error(err)
	}
	v.conn.Close()
	other.works(t)
}
