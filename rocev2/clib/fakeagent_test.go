// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// reply is what an agent of the test replies to a message.
type reply struct {
	body  any
	err   error
	fds   []int
	close bool     // the agent closes the connection instead
	to    *session // the connection
}

// session is a connection of an agent of the test.
type session struct {
	conn             *net.UnixConn
	file             int // stands for all memory that agent and process share
	signals, process int // both ends of the socket for signals
	count            uint32
}

const (
	fileBytes = 1 << 24
	cqHandle  = 5       // of each completion queue, whose ring is at the start of the file
	sendRing  = 1 << 20 // where the send ring of a queue pair is in the file
	srqRing   = 3 << 20
	movedRing = 2 << 20 // where the ring of a completion queue is after resize
)

// memfd makes a file in memory with seals.
func memfd(t *testing.T, bytes int64, seals int) int {
	t.Helper()
	file := testkit.Must1(unix.MemfdCreate("rings", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING))(t)
	t.Cleanup(func() { unix.Close(file) })
	testkit.Must(t, unix.Ftruncate(file, bytes))
	testkit.Must1(unix.FcntlInt(uintptr(file), unix.F_ADD_SEALS, seals))(t)
	return file
}

// serve is an agent that replies to each message as a correct one does, changed by change.
func serve(t *testing.T, path string, change func(proto.Header, *reply)) {
	t.Helper()
	l := testkit.Must1(net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"}))(t)
	serveOn(t, l, change)
}

func serveOn(t *testing.T, l *net.UnixListener, change func(proto.Header, *reply)) {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	file := memfd(t, fileBytes, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
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

// answer replies to the messages of a connection until it ends.
func answer(c *net.UnixConn, file int, change func(proto.Header, *reply)) {
	defer c.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	s := &session{conn: c, file: file, signals: pair[0], process: pair[1]}
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
		r := s.correct(h.Type)
		if h.Type == proto.TModifyQP { // the state of the send ring
			_, _ = unix.Pwrite(file, []byte{byte(verbs.StateInit)}, sendRing+ring.StateAt)
		}
		change(h, &r)
		if r.close || proto.Write(c, proto.AppendReply(nil, h, r.body, r.err), r.fds...) != nil {
			return
		}
	}
}

// event sends an event of an object.
func (s *session) event(kind, object uint32) {
	_ = proto.Write(s.conn, proto.Append(nil, proto.Header{Type: proto.TEvent}, &proto.Event{Type: kind, Object: object}))
}

// signal signals the completion queue, whose ring is at the start of the file.
func (s *session) signal() { s.signalAt(0) }

func (s *session) signalAt(offset int64) {
	s.count++
	_, _ = unix.Pwrite(s.file, binary.LittleEndian.AppendUint32(nil, s.count), offset+ring.StateAt)
	_, _ = unix.Write(s.signals, []byte{1})
}

// resize moves the ring of the completion queue, and signals the queue before the reply.
func (s *session) resize(r *reply) {
	r.body.(*proto.CreateCQReply).Offset = movedRing
	s.signalAt(movedRing)
	time.Sleep(100 * time.Millisecond) // a program that reads the first ring does so now
}

// correct is the reply of a correct agent to a message of ibv_rc_pingpong.
func (s *session) correct(t proto.Type) reply {
	_, body, _ := proto.Bodies(t)
	r := reply{body: body, to: s}
	switch m := body.(type) {
	case *proto.HelloReply:
		*m = proto.HelloReply{Version: proto.Version, CQ: 1 << 22, WR: 1 << 15, SGE: 32, MaxInline: 1024, MaxRdAtomic: 128, QPs: 1, RegionBytes: 1 << 30}
		r.fds = []int{s.file, s.file, s.file, s.process}
	case *proto.PortReply:
		*m = proto.PortReply{Active: 1, MTU: 1500, Count: 1}
		m.GIDs[0] = gid(1)
	case *proto.Handle:
		m.Handle = 1
	case *proto.RegReply:
		*m = proto.RegReply{Handle: 2, LKey: 3, RKey: 4}
	case *proto.CreateCQReply:
		*m = proto.CreateCQReply{Handle: cqHandle, Ring: proto.Shape{Entries: 512, EntryBytes: 32}}
		r.fds = []int{s.file}
	case *proto.CreateSRQReply:
		*m = proto.CreateSRQReply{Handle: 8, Ring: proto.Shape{Entries: 1, EntryBytes: 32}, Offset: srqRing}
		r.fds = []int{s.file}
	case *proto.CreateQPReply:
		send, recv := proto.Shape{Entries: 1, EntryBytes: 80}, proto.Shape{Entries: 512, EntryBytes: 32}
		*m = proto.CreateQPReply{Handle: 6, QPN: 7, Send: send, Recv: recv, Offset: sendRing}
		r.fds = []int{s.file}
	}
	return r
}

// gid is the GID of 127.0.0.last.
func gid(last byte) [16]byte { return [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: last} }

// once returns a function that is true the first time it is called.
func once() func() bool {
	var called atomic.Bool
	return func() bool { return called.CompareAndSwap(false, true) }
}
