// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// tcpPingPong times n bytes there and back over the kernel's TCP, with plain system
// calls like the raw ping-pong's.
func tcpPingPong(w *world, n int, length time.Duration, spin bool) (all []time.Duration, err error) {
	a, b, err := tcpPair(w)
	if err != nil {
		return nil, fmt.Errorf("TCP ping-pong: %w", err)
	}
	echoed := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer unix.Close(b)
		buf := make([]byte, n)
		for {
			err := readFull(b, buf, spin)
			if errors.Is(err, errEnd) {
				echoed <- nil
				return
			}
			if err == nil {
				_, err = unix.Write(b, buf)
			}
			if err != nil {
				echoed <- err
				return
			}
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	buf := make([]byte, n)
	all = make([]time.Duration, 0, 1<<20)
	for begin := time.Now(); err == nil && time.Since(begin) < length; {
		start := time.Now()
		if _, err = unix.Write(a, buf); err == nil {
			err = readFull(a, buf, spin)
		}
		all = append(all, time.Since(start))
	}
	_ = unix.Shutdown(a, unix.SHUT_WR)
	err = errors.Join(err, <-echoed, unix.Close(a))
	return all[len(all)/10:], err
}

var errEnd = errors.New("the connection was closed")

func readFull(fd int, buf []byte, spin bool) error {
	flags := 0
	if spin {
		flags = unix.MSG_DONTWAIT
	}
	for got := 0; got < len(buf); {
		n, _, err := unix.Recvfrom(fd, buf[got:], flags)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n == 0:
			return errEnd
		default:
			got += n
		}
	}
	return nil
}

// tcpPair connects host 1 to host 2 over the cable, without Nagle.
func tcpPair(w *world) (a, b int, err error) {
	sockaddr := func(addr netip.Addr, port int) *unix.SockaddrInet4 {
		return &unix.SockaddrInet4{Port: port, Addr: addr.As4()}
	}
	open := func() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0) }
	const port = 4242
	var listener int
	err = w.top.Host(2).Do(func() (err error) {
		if listener, err = open(); err != nil {
			return err
		}
		_ = unix.SetsockoptInt(listener, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		return errors.Join(unix.Bind(listener, sockaddr(w.addrs[1], port)), unix.Listen(listener, 1))
	})
	defer unix.Close(listener)
	if err != nil {
		return 0, 0, err
	}
	err = w.top.Host(1).Do(func() (err error) {
		if a, err = open(); err != nil {
			return err
		}
		return unix.Connect(a, sockaddr(w.addrs[1], port))
	})
	if err != nil {
		return 0, 0, err
	}
	if b, _, err = unix.Accept(listener); err != nil {
		return 0, 0, errors.Join(err, unix.Close(a))
	}
	for _, fd := range []int{a, b} {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	}
	return a, b, err
}
