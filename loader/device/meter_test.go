// SPDX-License-Identifier: Apache-2.0

package device

import (
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// Messages to a process that waits for its socket in tens of thousands of places count as what they cost, so that
// the process soon waits for its next call. Those to another process do not.
func TestMessagesCountTheirTime(t *testing.T) {
	const epolls, copies, messages, most = 100, 300, 500, 5000
	c := tested(t).socket
	var err error
	if c.costs.account, err = c.s.accounts.Open(c.s.now(), 1); err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(pair[0]), "pair")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c.conn = conn.(*net.UnixConn)
	process := pair[1]
	fds := []int{process}
	defer func() { proto.CloseFDs(fds) }()
	b := make([]byte, 64)
	exchange := func() {
		c.write(b)
		if _, err := unix.Read(process, b); err != nil {
			t.Fatal(err)
		}
	}
	for range messages {
		exchange()
	}
	if c.costs.debt.Load() != 0 {
		t.Errorf("%d messages to an honest process: it waits %v", messages, time.Duration(c.costs.debt.Load()))
	}
	for range copies {
		fd, err := unix.FcntlInt(uintptr(process), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	for range epolls {
		epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, epoll)
		for _, fd := range fds[1 : 1+copies] {
			if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}); err != nil {
				t.Fatal(err)
			}
		}
	}
	sent := 0
	for ; sent < most && c.costs.debt.Load() == 0; sent++ {
		exchange()
	}
	if sent == most {
		t.Errorf("%d messages with %d places to wake cost nothing", sent, epolls*copies)
	}
}
