// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// slowToClose returns a descriptor whose last close takes ten minutes: of a TCP connection with
// SO_LINGER whose peer does not read.
func slowToClose(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.(*net.TCPConn).SetLinger(0); peer.Close() }) // a reset, which ends the close
	_ = c.(*net.TCPConn).SetWriteBuffer(4096)
	_ = peer.(*net.TCPConn).SetReadBuffer(4096)
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c.Close()
	fd, err := unix.Dup(int(f.Fd())) // that f does not close
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.SetNonblock(fd, true)
	for buf := make([]byte, 1<<20); ; {
		if _, err := unix.Write(fd, buf); err != nil {
			break
		}
	}
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 600}); err != nil {
		t.Fatal(err)
	}
	return fd
}

// A process passes descriptors whose close blocks, and leaves messages with such descriptors
// unread: others go on, it still counts as a process of its user, and the server ends.
func TestDescriptorThatBlocks(t *testing.T) {
	most := limits.Defaults()
	most.User[limits.Processes] = 3
	s, dir := serve(t, device.Config{Limits: &most})
	other := newBystander(t, dir)
	r := dial(t, dir).hello()
	tries := 0
	testkit.Eventually(t, "the server ends the connection", func() bool { // messages that it has not read stay in the socket
		if tries++; tries > 4 && tries%50 != 0 {
			return hasEnded(r)
		}
		fd := slowToClose(t)
		err := write(r.conn, proto.TPort, 1, nil, fd)
		go unix.Close(fd) // blocks if the server has closed its own already
		return err != nil
	})
	other.works(t)
	testkit.Eventually(t, "two processes are left", func() bool { return len(s.Status().Processes) == 2 })
	if _, err := dial(t, dir).call(proto.THello, helloBody, new(proto.HelloReply)); err == nil {
		t.Error("a process whose descriptors are still being closed does not count any more")
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Close() }()
	testkit.Must(t, testkit.Receive(t, "the server ends", ended))
}

// Of processes that are refused and say nothing, a few may still ask why when the connections of the
// others have ended.
func TestRefusedProcesses(t *testing.T) {
	most := limits.Defaults()
	most.User[limits.Processes] = 1
	_, dir := serve(t, device.Config{Limits: &most})
	dial(t, dir).hello()
	testkit.Eventually(t, "a connection is served", func() bool {
		begin := time.Now()
		var all []*raw
		for range 100 {
			all = append(all, dial(t, dir))
			defer all[len(all)-1].conn.Close()
		}
		var stay []*raw
		testkit.Eventually(t, "at most 64 connections stay", func() bool {
			stay = slices.DeleteFunc(slices.Clone(all), hasEnded)
			return len(stay) <= 64
		})
		if len(stay) == 0 || time.Since(begin) > 5*time.Second { // the server waits for ten: again
			return false
		}
		if write(stay[0].conn, proto.THello, 1, helloBody) != nil {
			return false
		}
		h, _, _, err := stay[0].reply()
		return err == nil && h.Status == proto.StatusLimit
	})
}

// hasEnded reports whether the server has ended the connection.
func hasEnded(r *raw) (ended bool) {
	c, err := r.conn.SyscallConn()
	if err != nil {
		return true
	}
	_ = c.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		ended = err == nil && n > 0
	})
	return ended
}
