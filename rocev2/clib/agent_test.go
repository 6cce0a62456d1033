// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// What an agent that is none of ours replies: the library says what is wrong in one line, and the program ends with an error. It
// neither hangs nor is it killed by a signal. The agents of the table reply correctly up to the message that the case
// is about.
func TestWrongReplies(t *testing.T) {
	require.Command(t, "make", "gcc", "ibv_rc_pingpong")
	library := t.TempDir()
	makeLibrary(t, library)
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
			r.fileBytes = 0
		}, "cannot be mapped"},
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
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+library, "SOFTROCE_RUN_DIR="+dir)
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

// reply is what an agent of the test replies to a message.
type reply struct {
	body      any
	err       error
	fds       []int
	fileBytes int64 // size of the files whose descriptors it has
	close     bool  // the agent closes the connection instead
}

// serve is an agent that replies to each message as a correct one does, changed by change.
func serve(t *testing.T, path string, change func(proto.Header, *reply)) {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	file, err := unix.MemfdCreate("rings", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(file) })
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			go answer(c, file, change)
		}
	}()
}

// answer replies to the messages of a connection until it ends. The one file stands for all memory that is shared.
func answer(c *net.UnixConn, file int, change func(proto.Header, *reply)) {
	defer c.Close()
	buf := make([]byte, proto.MaxMessage)
	for {
		n, fds, err := proto.Read(c, buf)
		if err != nil {
			return
		}
		proto.CloseFDs(fds)
		h, _, err := proto.Split(buf[:n])
		if err != nil {
			return
		}
		r := correct(h.Type, file)
		if h.Type == proto.TModifyQP { // the state of the send ring
			_, _ = unix.Pwrite(file, []byte{byte(verbs.StateInit)}, sendRing+ring.StateAt)
		}
		change(h, &r)
		if r.close || unix.Ftruncate(file, r.fileBytes) != nil {
			return
		}
		if proto.Write(c, proto.AppendReply(nil, h, r.body, r.err), r.fds...) != nil {
			return
		}
	}
}

// sendRing is where the send ring of a queue pair is in the file.
const sendRing = 1 << 20

// correct is the reply of a correct agent to a message of ibv_rc_pingpong.
func correct(t proto.Type, file int) reply {
	_, body, _ := proto.Bodies(t)
	r := reply{body: body, fileBytes: 1 << 24}
	switch m := body.(type) {
	case *proto.HelloReply:
		*m = proto.HelloReply{Version: proto.Version, CQ: 1 << 22, WR: 1 << 15, SGE: 32, MaxInline: 1024, MaxRdAtomic: 128, QPs: 1, RegionBytes: 1 << 30}
		r.fds = []int{file, file, file, file}
	case *proto.PortReply:
		*m = proto.PortReply{Active: 1, MTU: 1500, Count: 1}
		m.GIDs[0] = [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}
	case *proto.Handle:
		m.Handle = 1
	case *proto.RegReply:
		*m = proto.RegReply{Handle: 2, LKey: 3, RKey: 4}
	case *proto.CreateCQReply:
		*m = proto.CreateCQReply{Handle: 5, Ring: proto.Shape{Entries: 512, EntryBytes: 32}}
		r.fds = []int{file}
	case *proto.CreateQPReply:
		*m = proto.CreateQPReply{Handle: 6, QPN: 7, Send: proto.Shape{Entries: 1, EntryBytes: 80}, Recv: proto.Shape{Entries: 512, EntryBytes: 32}, Offset: sendRing}
		r.fds = []int{file}
	}
	return r
}
