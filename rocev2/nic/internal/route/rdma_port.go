// SPDX-License-Identifier: Apache-2.0

package route

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// rdmaUserCM belongs to the kernel's module rdma_ucm.
const rdmaUserCM = "/dev/infiniband/rdma_cm"

// ErrRDMAPort means that a program that uses the kernel's communication manager has the port.
var ErrRDMAPort = errors.New("a program that uses the kernel's RDMA has the port")

// RDMAPort is a port of the kernel's communication manager (rdma_cm) that is taken: a program that uses that manager in the same
// network namespace is refused by rdma_bind_addr, or by rdma_listen if it has set RDMA_OPTION_ID_REUSEADDR. Nothing listens there.
// Several RDMAPorts may have one port: other agents of the host have listeners on their own interfaces.
type RDMAPort struct{ ids *os.File } // the kernel gives an ID and its port back when its file is closed

// Close gives the port back.
func (p *RDMAPort) Close() error { return p.ids.Close() }

// TakeRDMAPort takes a port at all addresses of the network namespace. Without the module rdma_ucm the error wraps fs.ErrNotExist.
func (t *Table) TakeRDMAPort(space mad.PortSpace, port uint16) (*RDMAPort, error) {
	t.kernel.rdma.Lock()
	defer t.kernel.rdma.Unlock()
	if t.kernel.closed {
		return nil, ErrClosed
	}
	type result struct {
		p   *RDMAPort
		err error
	}
	done := make(chan result)
	go func() { // its thread ends with it: it stays in the namespace
		runtime.LockOSThread()
		var r result
		if r.err = netns.Set(t.kernel.ns); r.err == nil {
			r.p, r.err = takeRDMAPort(space, port)
		}
		if r.err != nil {
			r.err = fmt.Errorf("port %d of the kernel's RDMA: %w", port, r.err)
		}
		done <- r
	}()
	r := <-done
	return r.p, r.err
}

func takeRDMAPort(space mad.PortSpace, port uint16) (*RDMAPort, error) {
	f, err := os.OpenFile(rdmaUserCM, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := bindRDMAPort(f, space, port); err != nil {
		f.Close()
		return nil, err
	}
	return &RDMAPort{f}, nil
}

func bindRDMAPort(f *os.File, space mad.PortSpace, port uint16) error {
	words := new(struct{ id, on, off uint32 })
	words.on = 1
	var pin runtime.Pinner // the kernel writes and reads there
	pin.Pin(words)
	defer pin.Unpin()
	at := func(w *uint32) uint64 { return uint64(uintptr(unsafe.Pointer(w))) }
	if _, err := f.Write(createID(at(&words.id), space)); err != nil {
		return err
	}
	for _, command := range [][]byte{
		setOption(words.id, optionReuseAddr, at(&words.on)), // RDMAPorts do not refuse each other
		setOption(words.id, optionAFOnly, at(&words.off)),   // IPv4 too, whatever net.ipv6.bindv6only is
		bindIP(words.id, port),
	} {
		_, err := f.Write(command)
		if errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EADDRNOTAVAIL) {
			return ErrRDMAPort
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Commands, as in rdma/rdma_user_cm.h. A command follows a header: number, length, room for the answer. Fields are in the byte
// order of the host.
const (
	cmdCreateID  = 0
	cmdBindIP    = 2
	cmdSetOption = 14

	levelID         = 0 // RDMA_OPTION_ID
	optionReuseAddr = 1 // RDMA_OPTION_ID_REUSEADDR
	optionAFOnly    = 2 // RDMA_OPTION_ID_AFONLY
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
	return append(b, make([]byte, 6)...) // type of the queue pair: there will be none
}

// setOption sets an option of an ID, whose value is an int at an address of this process.
func setOption(id, option uint32, value uint64) []byte {
	b := header(cmdSetOption, 24, 0)
	b = binary.NativeEndian.AppendUint64(b, value)
	for _, v := range []uint32{id, levelID, option, 4} {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
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
