// SPDX-License-Identifier: Apache-2.0

package hwoffload_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/internal/testkit"
)

// listen returns a listener and the address for Dial.
func listen(t testing.TB) (net.Listener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "card.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, "unix:" + path
}

// serve serves a device until the test ends.
func serve(t testing.TB, d hwoffload.Device) (addr string) {
	t.Helper()
	l, addr := listen(t)
	ended := make(chan error, 1)
	go func() { ended <- hwoffload.Serve(l, d) }()
	t.Cleanup(func() {
		l.Close()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return addr
}

func dial(t testing.TB, addr string) *hwoffload.Socket {
	t.Helper()
	s, err := hwoffload.Dial(addr, testkit.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSocket(t *testing.T) {
	m := card.New()
	s := dial(t, serve(t, m))
	c, err := hwoffload.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	c.W32(regs.IdentScratchOffset, 0x11223344)
	e := regs.DestOf(c, 1023)
	e.SetTxNs(-5)
	if v := c.R32(regs.IdentScratchOffset); v != 0x11223344 || e.TxNs() != -5 || c.Size() != m.Size() || c.Err() != nil {
		t.Errorf("scratch %#x, tx_ns %d, size %#x, error %v", v, e.TxNs(), c.Size(), c.Err())
	}
	if v := regs.DestOf(m, 1023).TxNs(); v != -5 {
		t.Errorf("tx_ns of the model is %d", v)
	}
	data := []byte("a line that crosses windows")
	if _, err := c.DDR().WriteAt(data, 1<<28-9); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(data))
	if _, err := c.DDR().ReadAt(got, 1<<28-9); err != nil || string(got) != string(data) {
		t.Errorf("%q, %v", got, err)
	}
}

// A write arrives although no read follows.
func TestSocketPostedWrite(t *testing.T) {
	m := card.New()
	s := dial(t, serve(t, m))
	s.W32(regs.IdentScratchOffset, 7)
	testkit.Eventually(t, "the write arrives", func() bool { return m.R32(regs.IdentScratchOffset) == 7 })
}

// Reads and writes of several goroutines do not mix.
func TestSocketConcurrent(t *testing.T) {
	s := dial(t, serve(t, card.New()))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			e := regs.DestOf(s, i)
			for n := range int64(300) {
				if e.SetTxNs(n << i); e.TxNs() != n<<i {
					t.Errorf("element %d differs", i)
					return
				}
			}
		})
	}
	all.Wait()
}

// A second client is refused while the first is connected, and accepted as soon as the first
// has called Close.
func TestSocketOneClient(t *testing.T) {
	addr := serve(t, card.New())
	for range 20 {
		s := dial(t, addr)
		s.W32(regs.IdentScratchOffset, 1)
		if err := s.Close(); err != nil || s.Close() != nil {
			t.Fatal(err)
		}
	}
	first := dial(t, addr)
	if _, err := hwoffload.Dial(addr, testkit.Patience); err == nil || !strings.Contains(err.Error(), "another process uses the card: end it first") {
		t.Errorf("error %v", err)
	}
	if first.R32(0) != regs.IdentMagicReset || first.Err() != nil {
		t.Errorf("first client: %v", first.Err())
	}
}

func TestSocketFaults(t *testing.T) {
	addr := serve(t, card.New())
	for name, access := range map[string]func(d hwoffload.Device){
		"misaligned": func(d hwoffload.Device) { d.W64(12, 1) },
		"beyond":     func(d hwoffload.Device) { d.R32(d.Size()) },
		"closed":     func(d hwoffload.Device) { d.Close(); d.W32(regs.IdentScratchOffset, 1) },
		"closed, R":  func(d hwoffload.Device) { d.Close(); d.R32(regs.IdentScratchOffset) },
	} {
		s := dial(t, addr)
		access(s)
		if s.Err() == nil || s.R32(0) != 0xffffffff || s.R64(0) != ^uint64(0) {
			t.Errorf("%s: error %v", name, s.Err())
		}
		s.Close()
	}
}

// The failure of a device is that of the client.
func TestSocketDeviceFails(t *testing.T) {
	m := card.New()
	s := dial(t, serve(t, m))
	m.Set(errors.New("the card is on fire"))
	if s.R32(0) != 0xffffffff || s.Err() == nil || !strings.Contains(s.Err().Error(), "the card is on fire") {
		t.Errorf("error %v", s.Err())
	}
}

// good is the first message of a server.
var good = append([]byte("SRCS\x01\x00\x00\x00"), 0, 0, 0, 32, 0, 0, 0, 0)

// Servers that are none, that end, or that do not answer: a clear error within the timeout.
func TestSocketServers(t *testing.T) {
	read := func(answer string) []byte { return append(good[:len(good):len(good)], answer...) }
	for _, test := range []struct {
		name   string
		answer []byte
		stay   bool // the server does not end the connection
		want   string
	}{
		{"other protocol", []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), false, "does not use the protocol of cards"},
		{"other version", []byte("SRCS\x02\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), false, "has version 2 of the protocol, this program version 1"},
		{"unknown status", []byte("SRCS\x01\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), false, "status 9, which this program does not know"},
		{"ends in the handshake", good[:7], false, "the connection has ended: does its process still run?"},
		{"silent in the handshake", nil, true, "no answer within 100ms: does its process still run?"},
		{"ends", good, false, "the connection has ended"},
		{"silent", good, true, "no answer within 100ms"},
		{"ends in an answer", read("\x01\x00\x08\x00\x01"), false, "message 0x1: unexpected EOF"},
		{"silent in an answer", read("\x01\x00\x08\x00\x01"), true, "no answer within 100ms"},
		{"other answer", read("\x02\x00\x08\x0012345678"), true, "message 0x2 with 8 bytes answers message 0x1"},
		{"short answer", read("\x01\x00\x04\x001234"), true, "message 0x1 with 4 bytes answers message 0x1"},
		{"long answer", read("\x01\x00\xff\xff"), true, "message 0x1 with 65535 bytes: the longest has 1024"},
		{"refusal", read("\x01\x01\x02\x00no"), true, "the card refuses the access: no"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, addr := listen(t)
			ended := make(chan struct{})
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				conn.Write(test.answer)
				if test.stay {
					<-ended
				} else {
					conn.(*net.UnixConn).CloseWrite()
					io.Copy(io.Discard, conn)
				}
			}()
			defer close(ended)
			timeout := testkit.Patience
			if strings.HasPrefix(test.want, "no answer") {
				timeout = 100 * time.Millisecond
			}
			s, err := hwoffload.Dial(addr, timeout)
			if err == nil {
				if v := s.R32(0); v != 0xffffffff || s.R64(8) != ^uint64(0) {
					t.Errorf("reads %#x", v)
				}
				err = s.Err()
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), addr) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

// A server that refuses something ends the connection, and the next write of the client fails. The reason of the
// failure is that of the server. A write that the server refuses later fails Close.
func TestSocketReasonOfEnd(t *testing.T) {
	const r64, no = "\x02\x00\x08\x0012345678", "\x03\x01\x02\x00no" // an answer, and a refusal
	for _, test := range []struct {
		name   string
		late   bool // the server refuses when it has received all that is sent
		access func(s *hwoffload.Socket)
	}{
		{"R32", false, func(s *hwoffload.Socket) { s.R32(0) }},
		{"R64s", false, func(s *hwoffload.Socket) { s.R64s(0, make([]uint64, 4)) }},
		{"W32", false, func(s *hwoffload.Socket) { s.W32(0, 1) }},
		{"W32, refused later", true, func(s *hwoffload.Socket) { s.W32(0, 1) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, addr := listen(t)
			ended := make(chan error, 1)
			go func() {
				conn, err := l.Accept()
				if err == nil {
					_, err = conn.Write(append(good[:len(good):len(good)], r64...))
					_, _ = io.ReadFull(conn, make([]byte, 8))
					if test.late {
						_, _ = io.Copy(io.Discard, conn)
					}
					_, refused := conn.Write([]byte(no))
					err = errors.Join(err, refused, conn.Close())
				}
				ended <- err
			}()
			s := dial(t, addr)
			if !test.late {
				testkit.Must(t, <-ended)
			}
			test.access(s)
			closed := s.Close()
			for _, err := range []error{closed, s.Err()} {
				if err == nil || !strings.Contains(err.Error(), "the card refuses the access: no") {
					t.Errorf("%v", err)
				}
			}
			if test.late {
				testkit.Must(t, <-ended)
			}
		})
	}
}

// A server may refuse a client before the client's first message.
func TestSocketRefusedAtOnce(t *testing.T) {
	l, addr := listen(t)
	conn, err := net.Dial("unix", strings.TrimPrefix(addr, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err == nil {
		_, err = server.Write([]byte("SRCS\x01\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	}
	if err == nil {
		err = server.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hwoffload.NewSocket(addr, conn, testkit.Patience); !errors.Is(err, hwoffload.ErrInUse) {
		t.Error(err)
	}
}

func TestDialRefuses(t *testing.T) {
	for addr, want := range map[string]string{
		"/run/card.sock": `card at "/run/card.sock": use unix: and the path of its socket`, "unix:": "use unix: and the path",
		"unix:/nowhere/card.sock": "no such file or directory",
	} {
		if _, err := hwoffload.Dial(addr, testkit.Patience); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// raw connects without a driver, sends bytes, and returns all answers.
func raw(t *testing.T, addr string, request string) string {
	t.Helper()
	conn, err := net.Dial("unix", strings.TrimPrefix(addr, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testkit.Patience))
	conn.Write([]byte(request))
	conn.(*net.UnixConn).CloseWrite()
	answer, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return string(answer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// Clients that send something wrong get an error, and neither the device nor the next client
// is concerned.
func TestServeMalformed(t *testing.T) {
	m := card.New()
	addr := serve(t, m)
	const hello = "SRCS\x01\x00\x00\x00"
	r32 := "\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	for _, test := range []struct{ name, request, want string }{
		{"other protocol", "GET / HTTP/1.1\r\n\r\n", ""},
		{"other version", "SRCS\x07\x00\x00\x00", "SRCS\x01\x01"},
		{"half of a handshake", hello[:5], ""},
		{"nothing", hello, "SRCS\x01\x00"},
		{"a read", hello + r32, "1CRS"},
		{"half of a message", hello + r32[:9], "message 0x1: unexpected EOF"},
		{"half of a head", hello + r32[:3], "unexpected EOF"},
		{"long", hello + "\x03\x00\xff\xff", "message 0x3 with 65535 bytes: the longest has 1024"},
		{"wrong length", hello + "\x03\x00\x08\x0012345678", "message 0x3 with 8 bytes: it has 16"},
		{"unknown", hello + "\x41\x00\x00\x00", "message 0x41 is unknown: is it one of a simulator?"},
		{"misaligned", hello + "\x01\x00\x08\x00\x02\x00\x00\x00\x00\x00\x00\x00", "the address is no multiple of 4"},
		{"beyond", hello + "\x02\x00\x08\x00\xf8\xff\xff\xff\xff\xff\xff\xff", "the address space ends at 0x20000000"},
	} {
		if got := raw(t, addr, test.request); !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: answer %q, want %q", test.name, got, test.want)
		}
	}
	if m.Err() != nil {
		t.Errorf("the device has failed: %v", m.Err())
	}
	if _, err := hwoffload.Open(dial(t, addr)); err != nil {
		t.Error(err)
	}
}

// After the listener is closed, Serve ends connections that are open.
func TestServeEnds(t *testing.T) {
	l, addr := listen(t)
	ended := make(chan error, 1)
	go func() { ended <- hwoffload.Serve(l, card.New()) }()
	s := dial(t, addr)
	l.Close()
	testkit.Must(t, testkit.Receive(t, "Serve returns", ended))
	if s.R32(0) != 0xffffffff || s.Err() == nil {
		t.Error("the connection is open")
	}
}
