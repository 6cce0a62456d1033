// SPDX-License-Identifier: Apache-2.0

package route

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// rdmaUserCM belongs to the kernel's module rdma_ucm.
const rdmaUserCM = "/dev/infiniband/rdma_cm"

// ErrRDMAPort means that a program that uses the kernel's communication manager has the port.
var ErrRDMAPort = errors.New("a program that uses the kernel's RDMA has the port")

// RDMAPort is a port of the kernel's communication manager (rdma_cm) that is taken: it is refused to rdma_bind_addr of programs that
// use that manager in the same network namespace. Nothing listens there.
type RDMAPort struct{ ids *os.File } // the kernel gives an ID and its port back when its file is closed

// Close gives the port back.
func (p *RDMAPort) Close() error { return p.ids.Close() }

// TakeRDMAPort takes a port at all addresses, in the network namespace of the calling thread. Without the module rdma_ucm the error wraps fs.ErrNotExist: no program can use the kernel's
// manager then.
func TakeRDMAPort(space mad.PortSpace, port uint16) (*RDMAPort, error) {
	f, err := os.OpenFile(rdmaUserCM, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("port of the kernel's RDMA: %w", err)
	}
	if err := takePort(f, space, port); err != nil {
		f.Close()
		return nil, fmt.Errorf("port %d of the kernel's RDMA: %w", port, err)
	}
	return &RDMAPort{f}, nil
}

func takePort(f *os.File, space mad.PortSpace, port uint16) error {
	id := new(uint32)
	var pin runtime.Pinner // the kernel writes the ID there
	pin.Pin(id)
	defer pin.Unpin()
	if _, err := f.Write(createID(uint64(uintptr(unsafe.Pointer(id))), space)); err != nil {
		return err
	}
	_, err := f.Write(bindIP(*id, port))
	if errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EADDRNOTAVAIL) { // at one address, at all addresses
		return ErrRDMAPort
	}
	return err
}

// Commands, as in rdma/rdma_user_cm.h. A command follows a header: number, length, room for the answer. Fields are in the byte
// order of the host.
const (
	cmdCreateID = 0
	cmdBindIP   = 2
)

func header(command uint32, in, out uint16) []byte {
	b := binary.NativeEndian.AppendUint32(nil, command)
	b = binary.NativeEndian.AppendUint16(b, in)
	return binary.NativeEndian.AppendUint16(b, out)
}

// createID asks for an ID, which the kernel writes to an address of this process.
func createID(answer uint64, space mad.PortSpace) []byte {
	b := header(cmdCreateID, 24, 4)
	b = append(b, make([]byte, 8)...) // what events would carry
	b = binary.NativeEndian.AppendUint64(b, answer)
	b = binary.NativeEndian.AppendUint16(b, uint16(space))
	return append(b, make([]byte, 6)...) // type of the queue pair, which the port space says
}

// bindIP binds an ID to a port of ::, which is every IPv4 and IPv6 address.
func bindIP(id uint32, port uint16) []byte {
	b := header(cmdBindIP, 40, 0)
	b = append(b, make([]byte, 8)...) // no answer
	b = binary.NativeEndian.AppendUint16(b, unix.AF_INET6)
	b = binary.BigEndian.AppendUint16(b, port)
	b = append(b, make([]byte, 24)...) // flow label, ::, scope
	return binary.NativeEndian.AppendUint32(b, id)
}
