// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// helloBody opens a device.
var helloBody = &proto.Hello{Magic: proto.Magic, Version: proto.Version}

// write sends a message, with descriptors.
func write(conn *net.UnixConn, t proto.Type, seq uint32, body any, fds ...int) error {
	return proto.Write(conn, proto.Append(nil, proto.Header{Type: t, Seq: seq}, body), fds...)
}

// raw is a process that speaks the protocol itself, and does what no client does.
type raw struct {
	t        *testing.T
	conn     *net.UnixConn
	seq      uint32
	buf      []byte
	doorbell ring.Doorbell
	wake     int
	page     ring.StatusPage
	overrun  bool // an event of a completion queue has arrived
}

func dial(t *testing.T, dir string) *raw {
	t.Helper()
	conn, err := net.Dial("unixpacket", proto.SocketPath(dir, "lo"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testkit.Patience))
	return &raw{t: t, conn: conn.(*net.UnixConn), buf: make([]byte, proto.MaxMessage)}
}

// hello opens the device.
func (r *raw) hello() *raw {
	r.t.Helper()
	var m proto.HelloReply
	fds, err := r.call(proto.THello, helloBody, &m)
	if err != nil || len(fds) != proto.HelloFDs {
		r.t.Fatalf("%v, %d descriptors", err, len(fds))
	}
	r.doorbell, _ = ring.OpenDoorbell(r.mapped(fds[1], ring.DoorbellBytes))
	r.wake = fds[2]
	unix.Close(fds[3])
	page, err := unix.Mmap(fds[0], 0, ring.StatusPageBytes, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		r.t.Fatal(err)
	}
	r.page, _ = ring.OpenStatusPage(page)
	_, err = unix.Mmap(fds[0], 0, ring.StatusPageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		r.t.Error("a process can map the statusPage for writing")
	}
	if unix.Ftruncate(fds[0], 0) == nil {
		r.t.Error("a process can truncate the statusPage")
	}
	unix.Close(fds[0])
	return r
}

func (r *raw) mapped(fd, n int) []byte { return r.mappedAt(fd, 0, n) }

func (r *raw) mappedAt(fd int, offset uint32, n int) []byte {
	r.t.Helper()
	if unix.Ftruncate(fd, 0) == nil {
		r.t.Error("a process can truncate memory of the server")
	}
	b, err := unix.Mmap(fd, int64(offset), n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	unix.Close(fd)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

func (r *raw) send(b []byte, fds ...int) {
	r.t.Helper()
	if err := proto.Write(r.conn, b, fds...); err != nil {
		r.t.Fatal(err)
	}
}

// reply returns the next reply, without events.
func (r *raw) reply() (h proto.Header, body []byte, fds []int, err error) {
	for {
		n, fds, err := proto.Read(r.conn, r.buf)
		if err != nil {
			return h, nil, nil, err
		}
		if h, body, err = proto.Split(r.buf[:n]); err != nil || h.Type != proto.TEvent {
			return h, body, fds, err
		}
		e, _, _ := proto.DecodeEvent(body)
		r.overrun = r.overrun || e.Type == uint32(verbs.EventCQError)
	}
}

// call sends a request and reads its reply.
func (r *raw) call(t proto.Type, request, reply any, fds ...int) ([]int, error) {
	r.t.Helper()
	r.seq++
	r.send(proto.Append(nil, proto.Header{Type: t, Seq: r.seq}, request), fds...)
	return r.answer(t, reply)
}

func (r *raw) answer(t proto.Type, reply any) ([]int, error) {
	r.t.Helper()
	h, body, got, err := r.reply()
	if err != nil {
		return nil, err
	}
	if h.Type != t|proto.Reply || h.Seq != r.seq {
		r.t.Fatalf("%+v answers message %d of type %d", h, r.seq, t)
	}
	if h.Status != proto.StatusOK {
		return got, &proto.Error{Status: h.Status, Text: string(body)}
	}
	return got, proto.Decode(body, reply)
}

// Messages in the wrong order, of unknown types and of wrong lengths get an error. The connection
// goes on if the server still knows what the messages mean.
func TestWrongMessages(t *testing.T) {
	_, dir := serve(t, device.Config{})
	r := dial(t, dir)
	if _, err := r.call(proto.TAllocPD, nil, nil); !errors.Is(err, proto.ErrProtocol) {
		t.Errorf("without a hello: %v", err)
	}
	if _, _, _, err := r.reply(); err == nil {
		t.Error("the connection goes on without a hello")
	}
	r = dial(t, dir)
	if _, err := r.call(proto.THello, &proto.Hello{Magic: proto.Magic, Version: proto.Version + 1}, nil); !errors.Is(err, proto.ErrVersion) {
		t.Errorf("another version: %v", err)
	}
	r = dial(t, dir).hello()
	for name, m := range map[string]struct {
		t    proto.Type
		body any
		want error
	}{
		"a second hello":         {proto.THello, helloBody, proto.ErrProtocol},
		"an unknown message":     {99, nil, proto.ErrProtocol},
		"an event":               {proto.TEvent, nil, proto.ErrProtocol},
		"a reply":                {proto.TAllocPD | proto.Reply, nil, proto.ErrProtocol},
		"a short body":           {proto.TCreateQP, &proto.Handle{}, proto.ErrProtocol},
		"a long body":            {proto.TAllocPD, &proto.Handle{}, proto.ErrProtocol},
		"no object":              {proto.TDestroyQP, &proto.Handle{Handle: 5}, proto.ErrHandle},
		"an arena without memfd": {proto.TAddArena, &proto.AddArena{Bytes: 4096}, proto.ErrProtocol},
		"a deep queue":           {proto.TCreateCQ, &proto.CreateCQ{Depth: 1 << 31}, nil},
		"memory of the process":  {proto.TRegMemory, &proto.RegMemory{}, proto.ErrHandle},
	} {
		if _, err := r.call(m.t, m.body, nil); err == nil || m.want != nil && !errors.Is(err, m.want) {
			t.Errorf("%s: %v, want %v", name, err, m.want)
		}
	}
	var pd proto.Handle
	if _, err := r.call(proto.TAllocPD, nil, &pd); err != nil {
		t.Errorf("the connection does not go on: %v", err)
	}
	if _, err := r.call(proto.TDestroyQP, &pd, nil); !errors.Is(err, proto.ErrHandle) {
		t.Errorf("a domain destroyed as a queue pair: %v", err)
	}
	r.send(make([]byte, proto.MaxMessage+1))
	if _, _, _, err := r.reply(); !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("after a message that is too long: %v", err)
	}
}

// memfd returns a sealed memfd.
func memfd(t *testing.T, size int64, seals int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Ftruncate(fd, size); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	return fd
}

const sealed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Only a memfd that cannot shrink, and has what it is said to have, becomes an arena.
func TestWrongArenas(t *testing.T) {
	_, dir := serve(t, device.Config{})
	r := dial(t, dir).hello()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, c := range map[string]struct {
		fd    int
		bytes uint64
	}{
		"a file":           {int(file.Fd()), 4096},
		"without a seal":   {memfd(t, 4096, unix.F_SEAL_GROW|unix.F_SEAL_SEAL), 4096},
		"longer than said": {memfd(t, 8192, sealed), 4096},
		"empty":            {memfd(t, 4096, sealed), 0},
		"not for writing":  {memfd(t, 4096, sealed|unix.F_SEAL_FUTURE_WRITE), 4096},
	} {
		if _, err := r.call(proto.TAddArena, &proto.AddArena{Bytes: c.bytes}, nil, c.fd); !errors.Is(err, proto.ErrMemory) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.call(proto.TAddArena, &proto.AddArena{Bytes: 1<<64 - 1}, nil, memfd(t, 4096, sealed)); !errors.Is(err, proto.ErrLimit) {
		t.Errorf("2^64-1 bytes: %v", err)
	}
	var a, pd proto.Handle
	if _, err := r.call(proto.TAddArena, &proto.AddArena{Bytes: 8192}, &a, memfd(t, 8192, sealed)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.call(proto.TAllocPD, nil, &pd); err != nil {
		t.Fatal(err)
	}
	for _, m := range []proto.RegArena{
		{Offset: 8192, Length: 1}, {Offset: 4096, Length: 4097}, {Offset: 1<<64 - 1, Length: 2}, {Offset: 2, Length: 1<<64 - 1}, {Length: 0},
	} {
		m.PD, m.Arena, m.Access = pd.Handle, a.Handle, uint32(allRights)
		if _, err := r.call(proto.TRegArena, &m, nil); err == nil {
			t.Errorf("%d bytes at %d of 8192 were registered", m.Length, m.Offset)
		}
	}
}

// A process cannot pass descriptors before the server has answered its hello, so that a connection which
// is refused can be closed at once. Before Linux 6.16 it can, and the server closes them.
func TestNoDescriptorsBeforeHello(t *testing.T) {
	s, dir := serve(t, device.Config{})
	hello := proto.Append(nil, proto.Header{Type: proto.THello}, helloBody)
	arena := func(r *raw) {
		t.Helper()
		if _, err := r.call(proto.TAddArena, &proto.AddArena{Bytes: 4096}, new(proto.Handle), memfd(t, 4096, sealed)); err != nil {
			t.Errorf("a descriptor after the hello: %v", err)
		}
	}
	if r := dial(t, dir); kernelFrom(t, 6, 16) {
		if err := proto.Write(r.conn, hello, memfd(t, 4096, sealed)); !errors.Is(err, unix.EPERM) {
			t.Errorf("a descriptor with the hello: %v, want EPERM", err)
		}
		arena(r.hello())
	}
	s.PassRights(true) // as before
	r := dial(t, dir)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	r.send(hello, int(write.Fd()))
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	fds, err := r.answer(proto.THello, new(proto.HelloReply))
	if err != nil {
		t.Fatal(err)
	}
	proto.CloseFDs(fds)
	_ = read.SetReadDeadline(time.Now().Add(testkit.Patience))
	if _, err := read.Read(make([]byte, 1)); err != io.EOF { // the server has the only other copy
		t.Errorf("the descriptor of the hello is not closed: %v", err)
	}
	arena(r)
}

// kernelFrom reports whether the kernel has a version or a later one.
func kernelFrom(t *testing.T, major, minor int) bool {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var has [2]int
	if n, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &has[0], &has[1]); n != 2 {
		t.Fatal(err)
	}
	return has[0] > major || has[0] == major && has[1] >= minor
}

// The server reads the messages of a process at a limited rate, other processes are not concerned, and the
// end of the process is seen while its messages wait.
func TestMessagesWait(t *testing.T) {
	l := limits.Defaults()
	l.Process[limits.Calls], l.User[limits.Calls] = 10, 1000
	s, dir := serve(t, device.Config{Limits: &l})
	const n = 2000
	began := time.Now()
	r := dial(t, dir).hello()
	go func() {
		for range n {
			if write(r.conn, proto.TPort, 0, nil) != nil {
				return
			}
		}
	}()
	saved := int(limits.Saved/time.Second) * 10
	for i := range saved + 20 { // 2 seconds beyond what is saved
		if _, _, _, err := r.reply(); err != nil {
			t.Fatalf("reply %d: %v", i, err)
		}
		// The server began to count later, and has counted the hello too.
		if earned := saved + int(10*time.Since(began).Seconds()); i > earned {
			t.Fatalf("%d replies after %v, want at most %d", i, time.Since(began), earned)
		}
	}
	other := open(t, dir)
	for range 100 {
		if _, err := other.Port(); err != nil {
			t.Fatal(err)
		}
	}
	r.conn.Close()
	testkit.Eventually(t, "one process is left", func() bool { return len(s.Status().Processes) == 1 })
}

// The server accepts connections at a limited rate of all users together, and others wait in order.
func TestConnectionsWait(t *testing.T) {
	const rate, saved = 2, 5 // connections a second; the server keeps those of 5 seconds
	_, dir := serve(t, device.Config{Accepts: rate})
	began := time.Now()
	for i := range rate*saved + 5 {
		r := dial(t, dir)
		if _, err := r.call(proto.TStatus, &proto.StatusRequest{}, new(proto.StatusReply)); err != nil {
			t.Fatal(err)
		}
		r.conn.Close()
		// The server does not wait for less than 20 ms.
		if most := rate*saved + int(rate*(time.Since(began)+100*time.Millisecond).Seconds()) + 1; i+1 > most {
			t.Fatalf("%d connections are served after %v, want at most %d", i+1, time.Since(began), most)
		}
	}
}
