// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
)

// fakeKernel has the ports of the kernel's manager.
type fakeKernel struct {
	t      *testing.T
	absent bool                   // nobody can ask it
	taken  map[mad.ServiceID]bool // true: by a program that uses it
}

func (k *fakeKernel) take(s mad.PortSpace, port uint16) (io.Closer, error) {
	id := mad.IPServiceID(s, port)
	if k.absent {
		return nil, fs.ErrNotExist
	}
	if _, ok := k.taken[id]; ok {
		return nil, fmt.Errorf("port %d: %w", port, route.ErrRDMAPort)
	}
	k.taken[id] = false
	return closer(func() {
		if foreign, ok := k.taken[id]; !ok || foreign {
			k.t.Errorf("%s is given back, and was not taken", id)
		}
		delete(k.taken, id)
	}), nil
}

type closer func()

func (c closer) Close() error { c(); return nil }

// Whatever the kernel has and when: listeners have their ports at both managers while the kernel has a device, except those that a
// program had before it came; a listener is refused if a program of the kernel has its port; nothing stays taken.
func TestKernelPorts(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		k := &fakeKernel{t: t, taken: map[mad.ServiceID]bool{}}
		p := newKernelPorts(nil)
		p.take = k.take
		kernel := false
		listeners := map[mad.ServiceID]bool{}
		for range 60 {
			id := mad.IPServiceID(mad.PortTCP, uint16(rng.IntN(4)+1))
			foreign := k.taken[id]
			switch rng.IntN(5) {
			case 0: // a program of the kernel
				if _, ok := k.taken[id]; !ok {
					k.taken[id] = true
				} else if foreign {
					delete(k.taken, id)
				}
			case 1:
				kernel = !kernel
				p.follow(kernel)
			case 2:
				k.absent = rng.IntN(4) == 0
				p.follow(kernel)
			default:
				if listeners[id] {
					p.unlisten(id)
					delete(listeners, id)
					break
				}
				err := p.listen(id, kernel)
				if refused := kernel && foreign && !k.absent; refused != errors.Is(err, cm.ErrInUse) || !refused && err != nil {
					t.Fatalf("seed %d: kernel %v, its program has the port %v: %v", seed, kernel, foreign, err)
				}
				listeners[id] = err == nil
			}
			if kernel && !k.absent {
				p.follow(kernel)
			}
			for id, is := range listeners {
				if _, ok := k.taken[id]; is && kernel && !k.absent && !ok {
					t.Fatalf("seed %d: %s is not taken", seed, id)
				}
			}
		}
		if err := p.listen(mad.ServiceID(0x1234567890), kernel); err != nil { // no port
			t.Fatal(err)
		}
		p.close()
		for id, foreign := range k.taken {
			if !foreign {
				t.Fatalf("seed %d: %s stays taken", seed, id)
			}
		}
	}
}

// The kernel is asked again when its answer is old, and not for each message.
func TestRecent(t *testing.T) {
	asked := 0
	f := recent(time.Hour, func() bool { asked++; return asked == 1 })
	for range 3 {
		if !f() {
			t.Fatal("it was asked again")
		}
	}
	f = recent(-1, func() bool { asked++; return asked%2 == 0 })
	if first, second := f(), f(); first == second {
		t.Error("it was not asked again")
	}
}
