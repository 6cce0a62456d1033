// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/mr/clientmem"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// While the server does not answer a request for another arena, memory of the arenas that are there is allocated and
// freed.
func TestAllocWhileArenaIsRequested(t *testing.T) {
	asked, answers := make(chan struct{}), make(chan struct{})
	d := answered(t, func() proto.Status {
		close(asked)
		<-answers
		return proto.StatusLimit
	})
	d.conf.ArenaBytes = 1 << 16
	a, err := clientmem.CreateArena(d.conf.ArenaBytes)
	if err != nil {
		t.Fatal(err)
	}
	a.CloseFD()
	d.arena.all = []*sharedArena{{Arena: a}}
	large := make(chan error, 1)
	go func() {
		_, err := d.Alloc(1 << 20)
		large <- err
	}()
	<-asked
	done := make(chan error, 1)
	go func() {
		b, err := d.Alloc(4096)
		if err == nil {
			err = d.Free(b)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(testkit.Patience):
		t.Error("Alloc or Free waits for the server")
	}
	close(answers)
	if err := <-large; !errors.Is(err, proto.ErrLimit) {
		t.Errorf("Alloc beyond the arena: %v", err)
	}
}
