// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// edges are the cases of testdata/edges.c, and how the agent of each differs from a correct one. nil: not at all.
var edges = map[string]func(t *testing.T) func(proto.Header, *reply){
	"parents": nil,
	"aborted": func(*testing.T) func(proto.Header, *reply) {
		return func(h proto.Header, r *reply) {
			if h.Type == proto.TModifyQP {
				_, _ = unix.Pwrite(r.to.file, []byte{byte(verbs.StateRTS)}, sendRing+ring.StateAt)
			}
		}
	},
	"arms": func(*testing.T) func(proto.Header, *reply) {
		return func(h proto.Header, r *reply) {
			if h.Type == proto.TCreateCQ { // the bit of the owner is the last one of the first completion
				_, _ = unix.Pwrite(r.to.file, []byte{0x80}, ring.EntriesAt+31)
			}
		}
	},
	"ended": func(*testing.T) func(proto.Header, *reply) {
		return func(h proto.Header, r *reply) { r.close = h.Type == proto.TAllocPD }
	},
	"last": func(*testing.T) func(proto.Header, *reply) {
		return func(h proto.Header, r *reply) {
			if h.Type != proto.TAllocPD {
				return
			}
			r.to.event(uint32(verbs.EventDeviceFatal), 0)
			_, _, _ = proto.Read(r.to.conn, make([]byte, proto.MaxMessage)) // the library has ended the connection
			r.to.signal()
			r.close = true
		}
	},
	"foreign": nil,
	"addresses": func(*testing.T) func(proto.Header, *reply) {
		return func(_ proto.Header, r *reply) {
			if m, ok := r.body.(*proto.PortReply); ok {
				m.Count = 3
				m.GIDs[2] = gid(2)
			}
		}
	},
	"acknowledges": func(*testing.T) func(proto.Header, *reply) {
		return func(h proto.Header, r *reply) {
			if h.Type == proto.TAllocPD {
				r.to.event(uint32(verbs.EventCQError), cqHandle)
			}
		}
	},
	"mtus": nil,
	"full": func(*testing.T) func(proto.Header, *reply) {
		return func(h proto.Header, r *reply) { r.close = h.Type == proto.TAllocPD }
	},
	"lengths": func(*testing.T) func(proto.Header, *reply) {
		made := map[proto.Type]bool{}
		replies := func(r *reply, t proto.Type) {
			if made[t] {
				r.err = verbs.ErrBusy
			}
			made[t] = true
			r.body, r.fds = &proto.AllocMWReply{Handle: 1}, nil
		}
		return func(h proto.Header, r *reply) {
			switch h.Type {
			case proto.TAllocPD, proto.TCreateCQ:
				replies(r, h.Type)
			case proto.TFreePD:
				made[proto.TAllocPD] = false
			case proto.TDestroyCQ:
				made[proto.TCreateCQ] = false
			}
		}
	},
	"guid": func(*testing.T) func(proto.Header, *reply) {
		first := once()
		return func(_ proto.Header, r *reply) {
			if m, ok := r.body.(*proto.PortReply); ok {
				m.MAC = [6]byte{2, 0, 0, 0, 0, 1}
				if first() {
					r.err = verbs.ErrBusy
				}
			}
		}
	},
	"statuses": func(*testing.T) func(proto.Header, *reply) {
		errs := []error{cm.ErrInUse, cm.ErrTooMany, cm.ErrTimeout, cm.ErrUnreachable, cm.ErrID}
		return func(h proto.Header, r *reply) {
			if h.Type == proto.TAllocPD {
				r.err, errs = errs[0], errs[1:]
			}
		}
	},
	"errnos": nil,
}

// What a program sees that does what it should not, or when something comes at a moment that is rare.
func TestEdges(t *testing.T) {
	require.Command(t, "make", "gcc")
	library := t.TempDir()
	makeLibrary(t, library)
	compile(t, library, "edges")
	for name, change := range edges {
		runClient(t, library, "edges", name, func(t *testing.T, dir string, start func() *client) {
			agent := func(proto.Header, *reply) {}
			if change != nil {
				agent = change(t)
			}
			serve(t, proto.SocketPath(dir, "eth0"), agent)
			start()
		})
	}
}
