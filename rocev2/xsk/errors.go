// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

var (
	// ErrClosed is returned by methods of a closed socket.
	ErrClosed = errors.New("xsk: socket is closed")

	// ErrGone says that the interface was deleted. The socket is of no further use.
	ErrGone = errors.New("xsk: the interface is gone")

	// ErrDown says that the interface is down (`ip link set … up`). What was
	// submitted stays and leaves with a Kick after it came up.
	ErrDown = errors.New("xsk: the interface is down")

	// ErrBusy says that somebody has the queue.
	ErrBusy = errors.New("queue is taken")
)

// explain says what a failed step of Open means and what to do about it.
func explain(step string, err error, c Config, ifName string) error {
	where := fmt.Sprintf("xsk: %s queue %d", ifName, c.Queue)
	hint := ""
	switch step {
	case "socket":
		switch {
		case errors.Is(err, unix.EPERM):
			hint = ": run as root, or with CAP_NET_RAW (and CAP_NET_ADMIN and CAP_BPF for the XDP program) in the namespace that owns the interface's network"
		case errors.Is(err, unix.EAFNOSUPPORT):
			hint = ": this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)"
		}
	case "UMEM":
		switch {
		case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EPERM), errors.Is(err, unix.EAGAIN):
			hint = ": the limit of locked memory is too low; raise it (`ulimit -l`, LimitMEMLOCK= in a unit), grant CAP_IPC_LOCK, or use fewer frames"
		case errors.Is(err, unix.ENOMEM):
			hint = ": not enough memory; use fewer frames"
		}
	case "bind":
		switch {
		case errors.Is(err, unix.EBUSY):
			return fmt.Errorf("%s: %w: another AF_XDP socket is bound to it (an engine of this product, DPDK, Suricata, OVS…; `ss --xdp -ap` shows owners where the kernel has XDP_SOCKETS_DIAG). End that, or choose another queue: %w",
				where, ErrBusy, err)
		case errors.Is(err, unix.EOPNOTSUPP) && c.Mode == ZeroCopy:
			hint = ": its driver has no zero-copy, or not with these settings (SG): choose Auto or Copy"
		case errors.Is(err, unix.EINVAL) && c.SG:
			hint = ": SG needs Linux 6.6, and the queue must exist (`ethtool -l`)"
		case errors.Is(err, unix.EINVAL):
			hint = ": no such queue? (`ethtool -l` lists them)"
		case errors.Is(err, unix.ENODEV):
			hint = ": the interface went away, or is in another network namespace"
		}
	}
	return fmt.Errorf("%s: %s: %w%s", where, step, err, hint)
}

// ofDevice translates what the kernel says about the interface.
func ofDevice(errno unix.Errno) error {
	switch errno {
	case unix.ENXIO, unix.ENODEV:
		return ErrGone
	case unix.ENETDOWN:
		return ErrDown
	}
	return fmt.Errorf("xsk: %w", errno)
}
