// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// What an agent that is none of ours replies: the library says what is wrong in one line, and the program ends with an error. It
// neither hangs nor is it killed by a signal. The agents of the table reply correctly up to the message that the case
// is about.
func TestWrongReplies(t *testing.T) {
	require.Command(t, "make", "gcc", "ibv_rc_pingpong")
	library := t.TempDir()
	makeLibrary(t, library)
	empty, unsealed := memfd(t, 0, unix.F_SEAL_SHRINK), memfd(t, fileBytes, 0)
	const none = uint32(1 << 30)
	tests := []struct {
		name  string
		reply func(h proto.Header, r *reply) // changes the reply to a message
		want  string                         // text on stderr
	}{
		{"another version", func(h proto.Header, r *reply) {
			r.err = proto.VersionError(1, 2)
		}, "different versions: install the same for both: 1 and 2"},
		{"no reply", func(h proto.Header, r *reply) { r.close = true }, "does not answer"},
		{"hello without descriptors", func(h proto.Header, r *reply) {
			r.fds = nil
		}, "0 descriptors"},
		{"hello with empty files", func(h proto.Header, r *reply) {
			if h.Type == proto.THello {
				r.fds[0] = empty
			}
		}, "cannot be mapped"},
		{"hello with files that can shrink", func(h proto.Header, r *reply) {
			if h.Type == proto.THello {
				r.fds[0] = unsealed
			}
		}, "cannot be mapped"},
		{"text with control characters", func(h proto.Header, r *reply) {
			r.err = errors.New("\x1b[31mred\x7f\r\nline\u009b2J")
		}, ": ?[31mred???line??2J\n"},
		{"hello that is too long", func(h proto.Header, r *reply) {
			r.body = &proto.PortReply{}
		}, "bytes and 4 descriptors"},
		{"queue without entries", func(h proto.Header, r *reply) {
			if m, ok := r.body.(*proto.CreateCQReply); ok {
				m.Ring.Entries = 0
			}
		}, "Couldn't create CQ"},
		{"queue of 3 entries", func(h proto.Header, r *reply) {
			if m, ok := r.body.(*proto.CreateCQReply); ok {
				m.Ring.Entries = 3
			}
		}, "Couldn't create CQ"},
		{"queue with fewer entries than requested", func(h proto.Header, r *reply) {
			if m, ok := r.body.(*proto.CreateCQReply); ok {
				m.Ring.Entries = 256
			}
		}, "Couldn't create CQ"},
		{"entries shorter than a completion", func(h proto.Header, r *reply) {
			if m, ok := r.body.(*proto.CreateCQReply); ok {
				m.Ring.EntryBytes = 16
			}
		}, "Couldn't create CQ"},
		{"ring behind the end of the file", func(h proto.Header, r *reply) {
			if m, ok := r.body.(*proto.CreateCQReply); ok {
				m.Offset = none
			}
		}, "Couldn't create CQ"},
		{"ring without a file", func(h proto.Header, r *reply) {
			if h.Type == proto.TCreateCQ {
				r.fds = nil
			}
		}, "Couldn't create CQ"},
		{"reply of another length", func(h proto.Header, r *reply) {
			if h.Type == proto.TAllocPD {
				r.body = &proto.AllocMWReply{}
			}
		}, "Couldn't allocate PD"},
		{"more GIDs than the reply has", func(h proto.Header, r *reply) {
			if m, ok := r.body.(*proto.PortReply); ok {
				m.Count = none
			}
		}, "Couldn't get port info"},
		{"receive queue with fewer entries than requested", func(h proto.Header, r *reply) {
			if m, ok := r.body.(*proto.CreateQPReply); ok {
				m.Recv.Entries = 256
			}
		}, "Couldn't create QP"},
		{"send queue whose entries are too short", func(h proto.Header, r *reply) {
			if m, ok := r.body.(*proto.CreateQPReply); ok {
				m.Send.EntryBytes = 64
			}
		}, "Couldn't create QP"},
		{"agent that ends in a call", func(h proto.Header, r *reply) {
			r.close = h.Type == proto.TCreateQP
		}, "the device server has ended: open the device again"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := testkit.SocketDir(t)
			serve(t, proto.SocketPath(dir, "eth0"), tt.reply)
			ctx, cancel := context.WithTimeout(testkit.Context(t), hang)
			defer cancel()
			cmd := exec.CommandContext(ctx, "ibv_rc_pingpong", "-g", "0", "127.0.0.1")
			cmd.Env = append(os.Environ(), preload(t), "LD_LIBRARY_PATH="+library, "SOFTROCE_RUN_DIR="+dir)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() < 1 { // -1: killed by a signal, also at the end of ctx
				t.Errorf("the program ends with %v, want an exit status that is not 0", err)
			}
			if strings.Count(string(out), tt.want) != 1 {
				t.Errorf("want %q once in the output:\n%s", tt.want, out)
			}
		})
	}
}
