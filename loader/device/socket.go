// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// socket is the connection of a process: the messages in both directions, and the descriptors that they have.
type socket struct {
	s       *Server
	process *process
	conn    *net.UnixConn
	events  chan []byte   // nil before Server.admit
	writing sync.Mutex    // held while a message is written
	over    atomic.Bool   // hangUp was called
	hung    chan struct{} // closed then

	costs     callCosts
	late      []<-chan struct{} // calls on descriptors that took too long; closed when they return
	lastCall  <-chan struct{}   // the latest of all such calls
	abandoned bool              // the descriptors of the request belong to such a call
}

const (
	eventBacklog = 1024

	// writePatience is how long a process may leave a message unread while its socket is full.
	writePatience = 10 * time.Second
)

func newSocket(s *Server, conn *net.UnixConn, p *process) *socket {
	return &socket{s: s, process: p, conn: conn, hung: make(chan struct{})}
}

// process is the process at the other end of a socket.
type process struct {
	pid, uid uint32
	pidfd    int // -1 if it has ended already
}

// peerOf returns the process that has connected, without its pidfd.
func peerOf(conn *net.UnixConn) (*process, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	return &process{pid: uint32(cred.Pid), uid: cred.Uid, pidfd: -1}, nil
}

// pidfdOf returns the pidfd of the process that has connected, or -1. SO_PEERPIDFD (Linux 6.5) is that
// process also if it has ended and another one has its number, which is not to be killed in its place.
func pidfdOf(conn *net.UnixConn, pid int) int {
	fd, err := -1, error(unix.ENOPROTOOPT)
	if raw, e := conn.SyscallConn(); e == nil {
		_ = raw.Control(func(s uintptr) { fd, err = unix.GetsockoptInt(int(s), unix.SOL_SOCKET, unix.SO_PEERPIDFD) })
	}
	if errors.Is(err, unix.ENOPROTOOPT) {
		fd, err = unix.PidfdOpen(pid, 0)
	}
	if err != nil { // it has ended
		return -1
	}
	return fd
}

// reply answers a request. fds stay the server's.
func (k *socket) reply(h proto.Header, body any, fds []int, err error) {
	k.write(proto.AppendReply(nil, h, body, err), fds...)
}

// write sends a message. A process that does not read loses its connection. Messages have one deadline
// each, in turn: one that waits for its turn does not extend that of another.
func (k *socket) write(b []byte, fds ...int) {
	k.writing.Lock()
	defer k.writing.Unlock()
	_ = k.conn.SetWriteDeadline(time.Now().Add(writePatience))
	if k.over.Load() { // hangUp has set an earlier deadline
		return
	}
	if err := proto.WriteWith(k.conn, b, k.metered, fds...); err != nil {
		k.hangUp()
	}
}

// event queues an event for the process, or nil, which ends the connection. The oldest is lost if the process does not
// read them.
func (k *socket) event(b []byte) {
	for {
		select {
		case k.events <- b:
			return
		default:
		}
		select {
		case <-k.events:
		default:
		}
	}
}

// sendEvents sends events until the connection ends.
func (k *socket) sendEvents(done <-chan struct{}) {
	for {
		select {
		case b := <-k.events:
			if b == nil {
				k.hangUp()
				return
			}
			k.write(b)
		case <-done:
			return
		}
	}
}
