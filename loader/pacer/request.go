// SPDX-License-Identifier: Apache-2.0

package pacer

import (
	"errors"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	_ "github.com/softroce/softroce-xdp/internal/platform" // 64-bit Linux only
)

// answerBuffer is the size of the buffer for answers, in bytes. The kernel fills at most that much
// at once.
const answerBuffer = 16 << 10

// errTruncated: the kernel sent what is no netlink message.
var errTruncated = errors.New("a truncated netlink message")

// request sends a request about traffic control, and calls f with the body of each answer. The
// netlink package allocates 64 KiB for each request, and the agent makes one every second: the
// collector would take more time than the request.
func request(kind uint16, flags int, msg *nl.TcMsg, f func(body []byte)) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	e := nl.NativeEndian()
	req := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+nl.SizeofTcMsg)
	e.PutUint32(req, unix.SizeofNlMsghdr+nl.SizeofTcMsg)
	e.PutUint16(req[4:], kind)
	e.PutUint16(req[6:], uint16(unix.NLM_F_REQUEST|flags))
	req = append(req, msg.Serialize()...)
	if err := unix.Sendto(fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	size := answerBuffer
	if flags&unix.NLM_F_DUMP != unix.NLM_F_DUMP {
		size /= 4 // one object and the acknowledgement
	}
	for buf := make([]byte, size); ; {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		for b := buf[:n]; len(b) > 0; {
			if len(b) < unix.SizeofNlMsghdr {
				return errTruncated
			}
			length := int(e.Uint32(b))
			if length < unix.SizeofNlMsghdr || length > len(b) {
				return errTruncated
			}
			body := b[unix.SizeofNlMsghdr:length]
			switch t := e.Uint16(b[4:]); {
			case t == unix.NLMSG_DONE:
				return nil
			case t == unix.NLMSG_ERROR && len(body) >= 4:
				if errno := -int32(e.Uint32(body)); errno != 0 {
					return unix.Errno(errno)
				}
				return nil
			case len(body) >= nl.SizeofTcMsg:
				f(body)
			}
			b = b[min((length+3)&^3, len(b)):]
		}
	}
}
