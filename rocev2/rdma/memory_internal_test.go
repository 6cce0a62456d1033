// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// slowDevice is a device whose Deregister waits for an answer. It notes what ends the memory, in order.
type slowDevice struct {
	verbs.Device
	begun, answer chan struct{} // Deregister closes begun, and waits for answer
	calls         []string      // calls by one goroutine at a time
}

func (d *slowDevice) Alloc(n int) ([]byte, error) { return make([]byte, n), nil }

func (d *slowDevice) Free([]byte) error {
	d.calls = append(d.calls, "free")
	return nil
}

type slowPD struct {
	verbs.PD
	d *slowDevice
}

func (p slowPD) RegMR([]byte, verbs.Access) (verbs.MR, error) { return slowMR{d: p.d}, nil }

type slowMR struct {
	verbs.MR
	d *slowDevice
}

func (m slowMR) Deregister() error {
	close(m.d.begun)
	<-m.d.answer
	m.d.calls = append(m.d.calls, "deregister")
	return nil
}

// While the device does not answer Deregister, nobody waits for the memory of a connection, and the last user leaves
// it registered. It is freed once, after it was deregistered and all have released it.
func TestFreeWithoutAnswer(t *testing.T) {
	for name, late := range map[string]bool{"released before the answer": false, "released after the answer": true} {
		t.Run(name, func(t *testing.T) {
			d := &slowDevice{begun: make(chan struct{}), answer: make(chan struct{})}
			var b buffers
			if err := b.make(d, slowPD{d: d}, 1); err != nil || !b.acquire() {
				t.Fatal(err)
			}
			freed := make(chan error, 1)
			go func() { freed <- b.free(d) }()
			<-d.begun
			used := make(chan error, 1)
			go func() {
				if b.acquire() {
					t.Error("the memory of a closed connection is accessed")
				}
				if !late {
					used <- b.release(d)
				}
				close(used)
			}()
			select {
			case err := <-used:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(testkit.Patience):
				t.Error("acquire or release waits for the device")
			}
			close(d.answer)
			if err := <-freed; err != nil {
				t.Error(err)
			}
			if <-used; late {
				if err := b.release(d); err != nil {
					t.Error(err)
				}
			}
			if !slices.Equal(d.calls, []string{"deregister", "free"}) {
				t.Errorf("the memory has ended by %v", d.calls)
			}
		})
	}
}
