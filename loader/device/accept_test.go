// SPDX-License-Identifier: Apache-2.0

package device

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// A bounded number of connections wait to be accepted, whatever the kernel allows.
func TestBacklog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := configure(l); err != nil {
		t.Fatal(err)
	}
	waiting := 0
	for ; waiting <= 2*backlog; waiting++ {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err == unix.EAGAIN {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if waiting != backlog+1 { // Linux has one more
		t.Errorf("%d connections wait, want %d", waiting, backlog+1)
	}
}

// A process that is refused gets an answer, up to a number of them at the same time. Connections of others are
// closed without, also a bounded number at the same time.
func TestRefusedAreBounded(t *testing.T) {
	s := tested(t).s
	s.accounts = limits.New(limits.Limits{})
	refuse := func() (process *net.UnixConn, began chan struct{}) {
		server, process := connPair(t)
		began = make(chan struct{})
		go func() {
			s.begin(server)
			close(began)
		}()
		return process, began
	}
	process, began := refuse()
	<-began
	answer := make([]byte, proto.MaxMessage)
	_ = process.SetDeadline(time.Now().Add(2 * time.Minute))
	if err := proto.Write(process, proto.Append(nil, proto.Header{Type: proto.THello, Seq: 7}, nil)); err != nil {
		t.Fatal(err)
	}
	n, _, err := proto.Read(process, answer)
	if err != nil {
		t.Fatal(err)
	}
	if h, _, err := proto.Split(answer[:n]); err != nil || h.Seq != 7 || h.Status == proto.StatusOK {
		t.Errorf("a process beyond the limit gets %+v, %v", h, err)
	}
	s.all.Wait()
	if len(s.refused) != 0 {
		t.Fatalf("%d are being refused", len(s.refused))
	}

	for range maxRefused {
		s.refused <- struct{}{}
	}
	process, began = refuse()
	<-began
	_ = process.SetDeadline(time.Now().Add(2 * time.Minute))
	if n, _, err := proto.Read(process, answer); err == nil {
		t.Errorf("an answer of %d bytes while others are being refused", n)
	}
	s.all.Wait()
	for range maxClosers {
		s.closers <- struct{}{}
	}
	_, began = refuse()
	select {
	case <-began:
		t.Error("more connections are closed at the same time")
	case <-time.After(100 * time.Millisecond):
	}
	<-s.closers // one is closed
	<-began
	s.all.Wait()
	if len(s.closers) != maxClosers-1 {
		t.Errorf("%d are being closed, want %d", len(s.closers), maxClosers-1)
	}
}

// connPair returns the ends of a connection to the socket.
func connPair(t *testing.T) (server, process *net.UnixConn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if process, err = net.DialUnix("unixpacket", nil, l.Addr().(*net.UnixAddr)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { process.Close() })
	if server, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	return server, process
}
