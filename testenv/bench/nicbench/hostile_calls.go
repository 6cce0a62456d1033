// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var helloMessage = proto.Append(nil, proto.Header{Type: proto.THello}, &proto.Hello{Magic: proto.Magic, Version: proto.Version})

func dial(dir string) (*net.UnixConn, error) {
	return proto.Dial(context.Background(), proto.SocketPath(dir, cableName))
}

// randomMessages makes another connection where the server ends the first.
func randomMessages(dir string, ready func()) error {
	ready()
	rng := rand.New(rand.NewPCG(1, 2))
	for {
		conn, err := dial(dir)
		if err != nil {
			return err
		}
		go discard(conn)
		err = proto.Write(conn, helloMessage)
		for err == nil {
			body := make([]byte, rng.IntN(100))
			for i := range body {
				body[i] = byte(rng.IntN(4)) // often a handle or a size that is possible
			}
			t := proto.Type(1 + rng.IntN(int(proto.TDestroyQP)))
			err = proto.Write(conn, append(proto.Append(nil, proto.Header{Type: t}, nil), body...))
		}
		conn.Close()
	}
}

// discard reads replies, or the server would end the connection for that.
func discard(conn *net.UnixConn) {
	b := make([]byte, proto.MaxMessage)
	for {
		_, fds, err := proto.Read(conn, b)
		if err != nil {
			return
		}
		proto.CloseFDs(fds)
	}
}

func connectOnly(dir string, ready func()) error {
	ready()
	for {
		conn, err := dial(dir)
		if err != nil {
			return err
		}
		conn.Close()
	}
}

func openClose(dir string, ready func()) error {
	ready()
	b := make([]byte, proto.MaxMessage)
	for {
		conn, err := dial(dir)
		if err != nil {
			return err
		}
		if proto.Write(conn, helloMessage) == nil {
			if _, fds, err := proto.Read(conn, b); err == nil {
				proto.CloseFDs(fds)
			}
		}
		conn.Close()
	}
}

func askStatus(dir string, ready func()) error {
	ready()
	for {
		_, err := device.ReadStatus(context.Background(), proto.SocketPath(dir, cableName))
		if errors.Is(err, os.ErrPermission) {
			return err
		}
	}
}

// opened opens the device and makes a domain and a completion queue.
func opened(dir string) (*client.Device, verbs.PD, verbs.CQ, error) {
	d, err := client.Open(context.Background(), cableName, client.Config{RunDir: dir})
	if err != nil {
		return nil, nil, nil, err
	}
	pd, err := d.AllocPD()
	if err != nil {
		return nil, nil, nil, err
	}
	cq, err := d.CreateCQ(16)
	return d, pd, cq, err
}

// many runs a loop in several goroutines, so that the server always has a message to read.
func many(f func() error) error {
	errs := make(chan error)
	for range 4 {
		go func() {
			for {
				if err := f(); err != nil {
					errs <- err
				}
			}
		}()
	}
	return <-errs
}

func registerMemory(dir string, ready func()) error {
	_, pd, _, err := opened(dir)
	if err != nil {
		return err
	}
	b := make([]byte, 64<<20)
	ready()
	return many(func() error {
		m, err := pd.RegMR(b, verbs.AccessLocalWrite)
		if err != nil {
			return err
		}
		return m.Deregister()
	})
}

func createQPs(dir string, ready func()) error {
	_, pd, cq, err := opened(dir)
	if err != nil {
		return err
	}
	ready()
	return many(func() error {
		q, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
		if err != nil {
			return err
		}
		return q.Destroy()
	})
}

func modifyQP(dir string, ready func()) error {
	_, pd, cq, err := opened(dir)
	if err != nil {
		return err
	}
	ready()
	return many(func() error {
		q, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
		for err == nil {
			if err = q.Modify(verbs.Attr{State: verbs.StateInit}, verbs.MaskState|verbs.MaskAccess); err == nil {
				err = q.Modify(verbs.Attr{State: verbs.StateReset}, verbs.MaskState)
			}
		}
		return err
	})
}

func manyConnections(dir string, ready func()) error {
	d, pd, cq, err := opened(dir)
	if err != nil {
		return err
	}
	q, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
	if err != nil {
		return err
	}
	port, err := d.Port()
	if err != nil {
		return err
	}
	self := port.GIDs[0]
	for _, a := range port.GIDs {
		if a.Is4() {
			self = a
		}
	}
	s, err := d.OpenCM()
	if err != nil {
		return err
	}
	go func() {
		for range s.Events() {
		}
	}()
	ready()
	return manyCalls(s, self, q.QPN())
}

func manyCalls(s cm.Session, self netip.Addr, qpn uint32) error {
	return many(func() error {
		id := mad.IPServiceID(mad.PortTCP, uint16(20000+rand.IntN(20000)))
		if s.Listen(id, 16) == nil {
			_ = s.Unlisten(id)
		}
		p := cm.ConnectParams{Local: self, Peer: self, Service: id, SrcPort: 4000, QPN: qpn, Attr: verbs.DefaultAttr()}
		c, err := s.Connect(p) // nobody listens there
		if errors.Is(err, verbs.ErrClosed) {
			return err
		}
		if err == nil {
			_ = s.Disconnect(c, nil)
		}
		return nil
	})
}

// doorbell is the memory of a process that the engine reads.
type doorbell struct {
	ring.Doorbell
	page ring.StatusPage
	wake int
}

// call sends a request and decodes its reply.
func call(conn *net.UnixConn, t proto.Type, request, reply any) ([]int, error) {
	if err := proto.Write(conn, proto.Append(nil, proto.Header{Type: t}, request)); err != nil {
		return nil, err
	}
	b := make([]byte, proto.MaxMessage)
	n, fds, err := proto.Read(conn, b)
	if err != nil {
		return nil, err
	}
	h, body, err := proto.Split(b[:n])
	if err == nil && h.Status != proto.StatusOK {
		err = &proto.Error{Status: h.Status, Text: string(body)}
	}
	if err == nil {
		err = proto.Decode(body, reply)
	}
	return fds, err
}

func rawOpen(dir string) (conn *net.UnixConn, b doorbell, err error) {
	if conn, err = dial(dir); err != nil {
		return nil, b, err
	}
	fds, err := call(conn, proto.THello, &proto.Hello{Magic: proto.Magic, Version: proto.Version}, new(proto.HelloReply))
	if err != nil {
		return nil, b, err
	}
	page, err1 := unix.Mmap(fds[0], 0, ring.StatusPageBytes, unix.PROT_READ, unix.MAP_SHARED)
	words, err2 := unix.Mmap(fds[1], 0, ring.DoorbellBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err := errors.Join(err1, err2); err != nil {
		return nil, b, err
	}
	b.wake = fds[2]
	b.page, err1 = ring.OpenStatusPage(page)
	b.Doorbell, err2 = ring.OpenDoorbell(words)
	return conn, b, errors.Join(err1, err2)
}

// signal ends the sleep of the engine.
func (b doorbell) signal() {
	_, _ = unix.Write(b.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	var count [8]byte
	_, _ = unix.Read(b.wake, count[:])
}

// emptyRings is how many rings ringDoorbell names, half of what a doorbell can.
const emptyRings = 2048

func ringDoorbell(dir string, ready func()) error {
	conn, b, err := rawOpen(dir)
	if err != nil {
		return err
	}
	var pd proto.Handle
	if _, err := call(conn, proto.TAllocPD, nil, &pd); err != nil {
		return err
	}
	var cq proto.CreateCQReply
	fds, err := call(conn, proto.TCreateCQ, &proto.CreateCQ{Depth: 1}, &cq)
	if err != nil {
		return err
	}
	proto.CloseFDs(fds)
	var queues []uint32
	for range emptyRings / 2 {
		var q proto.CreateQPReply
		fds, err := call(conn, proto.TCreateQP, &proto.CreateQP{
			PD: pd.Handle, SendCQ: cq.Handle, RecvCQ: cq.Handle, Type: uint8(verbs.RC), MaxSend: 1, MaxRecv: 1, MaxSendSGE: 1, MaxRecvSGE: 1,
		}, &q)
		if err != nil {
			return err
		}
		proto.CloseFDs(fds)
		queues = append(queues, q.SendQueue, q.RecvQueue)
	}
	ready()
	for {
		for _, q := range queues {
			b.Set(q)
		}
		if b.page.Asleep().Load() != 0 {
			b.signal()
		}
	}
}

func armQueues(dir string, ready func()) error {
	conn, b, err := rawOpen(dir)
	if err != nil {
		return err
	}
	var rings []ring.Ring
	for range 64 {
		var q proto.CreateCQReply
		fds, err := call(conn, proto.TCreateCQ, &proto.CreateCQ{Depth: 16}, &q)
		if err != nil {
			return err
		}
		s := ring.Shape{Entries: q.Ring.Entries, EntryBytes: q.Ring.EntryBytes}
		m, err := unix.Mmap(fds[0], int64(q.Offset), s.Bytes(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		proto.CloseFDs(fds)
		r, err := ring.Open(m, s)
		if err != nil {
			return err
		}
		rings = append(rings, r)
	}
	ready()
	for i := uint32(0); ; i++ {
		for _, r := range rings {
			r.Armed().Store(i % 3)
		}
		b.signal()
	}
}
