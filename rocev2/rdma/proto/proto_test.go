// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Every type between the first and the last has structures of a fixed size, which fit a message and
// whose fields lie at multiples of their size, as in C.
func TestBodies(t *testing.T) {
	var all []proto.Type
	for ty := proto.THello; ty <= proto.TResizeCQ; ty++ {
		all = append(all, ty)
	}
	for ty := proto.TCMOpen; ty <= proto.TCMAnswer; ty++ {
		all = append(all, ty)
	}
	for _, ty := range all {
		req, reply, ok := proto.Bodies(ty)
		if !ok {
			t.Errorf("type %d has no bodies", ty)
		}
		for _, b := range []any{req, reply} {
			if b == nil {
				continue
			}
			typ := reflect.TypeOf(b).Elem()
			if n := binary.Size(b); n < 0 || n > proto.MaxMessage-proto.HeaderBytes || n != int(typ.Size()) {
				t.Errorf("%s: %d bytes in a message, %d in memory", typ, n, typ.Size())
			}
		}
	}
	for _, ty := range []proto.Type{0, proto.TResizeCQ + 1, proto.TEvent, proto.TCMAnswer + 1, proto.TCMEvent, proto.THello | proto.Reply} {
		if _, _, ok := proto.Bodies(ty); ok {
			t.Errorf("type %#x is a request", ty)
		}
	}
}

// A message byte for byte.
func TestBytes(t *testing.T) {
	got := proto.Append(nil, proto.Header{Type: proto.TSetSRQLimit, Status: 0x102, Seq: 0x04030201}, &proto.SRQLimit{Handle: 7, Limit: -2})
	want := []byte{byte(proto.TSetSRQLimit), 0, 2, 1, 1, 2, 3, 4, 7, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff}
	if !slices.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
	h, body, err := proto.Split(got)
	var m proto.SRQLimit
	if err = errors.Join(err, proto.Decode(body, &m)); err != nil || h.Seq != 0x04030201 || m.Limit != -2 {
		t.Errorf("%+v %+v %v", h, m, err)
	}
	for n := range len(want) {
		h, body, err := proto.Split(want[:n])
		if err == nil {
			err = proto.Decode(body, &m)
		}
		if !errors.Is(err, proto.ErrProtocol) {
			t.Errorf("%d of %d bytes: %+v, %v", n, len(want), h, err)
		}
	}
}

func TestAttr(t *testing.T) {
	a := verbs.Attr{
		State: verbs.StateRTS, PMTU: rocev2.PMTU2048, DestQPN: 1, PKey: 2, QKey: 3, SQPSN: 4, RQPSN: 5, Access: 6, MaxRdAtomic: 7, MaxDestRdAtomic: 8,
		MinRNRTimer: 9, Timeout: 10, RetryCnt: 11, RNRRetry: 12, Selective: true, Draining: true,
		AV: verbs.AddressVector{Dst: netip.MustParseAddr("10.0.0.1"), Src: netip.MustParseAddr("fe80::1"), TClass: 13, HopLimit: 14},
	}
	v := reflect.ValueOf(a)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("the test leaves out %s", v.Type().Field(i).Name)
		}
	}
	wire := proto.AttrOf(a)
	var back proto.Attr
	if err := proto.Decode(proto.Append(nil, proto.Header{}, &wire)[proto.HeaderBytes:], &back); err != nil || back.Verbs() != a {
		t.Errorf("%v: %+v, want %+v", err, back.Verbs(), a)
	}
	if none := (proto.Addr{}).IP(); none.IsValid() {
		t.Error(none)
	}
}

// Errors keep what they wrap on the way to the client.
func TestStatus(t *testing.T) {
	for _, want := range []error{
		proto.ErrProtocol, proto.ErrVersion, proto.ErrHandle, proto.ErrLimit, proto.ErrMemory, proto.ErrBusyCalls,
		verbs.ErrClosed, verbs.ErrGone, verbs.ErrDestroyed, verbs.ErrBusy, verbs.ErrTooMany, verbs.ErrPD, verbs.ErrNoKey, verbs.ErrAccess, verbs.ErrRange,
		cm.ErrID, cm.ErrInUse, cm.ErrTooMany, cm.ErrTimeout, cm.ErrUnserved, cm.ErrCanceled, cm.ErrHungUp, cm.ErrReply, cm.ErrStale, mad.ErrPrivate, cm.ErrDisplaced, cm.ErrUnreachable,
	} {
		err := fmt.Errorf("about it: %w", want)
		got := &proto.Error{Status: proto.StatusOf(err), Text: err.Error()}
		if !errors.Is(got, want) || got.Error() != err.Error() {
			t.Errorf("%v became status %d, %v", err, got.Status, errors.Unwrap(got))
		}
	}
	if proto.StatusOf(nil) != proto.StatusOK || proto.StatusOf(io.EOF) != proto.StatusFailed {
		t.Error(proto.StatusOf(nil), proto.StatusOf(io.EOF))
	}
}

func pair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var c [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "")
		n, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		c[i] = n.(*net.UnixConn)
		t.Cleanup(func() { n.Close() })
	}
	return c[0], c[1]
}

// Descriptors arrive with their message, and of messages that are refused none stays open.
func TestDescriptors(t *testing.T) {
	a, b := pair(t)
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	buf := make([]byte, 16)
	if err := proto.Write(a, []byte("two"), int(file.Fd()), int(file.Fd())); err != nil {
		t.Fatal(err)
	}
	n, fds, err := proto.Read(b, buf)
	if err != nil || string(buf[:n]) != "two" || len(fds) != 2 {
		t.Fatalf("%q, %d descriptors, %v", buf[:n], len(fds), err)
	}
	proto.CloseFDs(fds)
	before, _ := filepath.Glob("/proc/self/fd/*")
	if err := proto.Write(a, make([]byte, 17), int(file.Fd())); err != nil {
		t.Fatal(err)
	}
	if _, _, err := proto.Read(b, buf); !errors.Is(err, proto.ErrProtocol) {
		t.Errorf("a long message: %v", err)
	}
	many := slices.Repeat([]int{int(file.Fd())}, 40)
	if err := proto.Write(a, []byte("many"), many...); err != nil {
		t.Fatal(err)
	}
	if _, _, err := proto.Read(b, buf); !errors.Is(err, proto.ErrProtocol) {
		t.Errorf("40 descriptors: %v", err)
	}
	if after, _ := filepath.Glob("/proc/self/fd/*"); len(after) > len(before) {
		t.Errorf("%d descriptors, %d before", len(after), len(before))
	}
	a.Close()
	if _, _, err := proto.Read(b, buf); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestServed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"eth0", "eth0.100", "a%b"} {
		if err := os.WriteFile(proto.SocketPath(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := proto.Served(dir)
	slices.Sort(got)
	if !slices.Equal(got, []string{"a%b", "eth0", "eth0.100"}) {
		t.Errorf("%q", got)
	}
}

// Whatever arrives, decoding ends without a panic.
func FuzzMessage(f *testing.F) {
	f.Add(proto.Append(nil, proto.Header{Type: proto.TCreateQP}, &proto.CreateQP{}))
	f.Add(proto.Append(nil, proto.Header{Type: proto.TEvent}, &proto.Event{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, body, err := proto.Split(b)
		if err != nil {
			return
		}
		req, reply, ok := proto.Bodies(h.Type &^ proto.Reply)
		if !ok {
			return
		}
		if err := proto.Decode(body, req); err == nil && req != nil {
			if again := proto.Append(nil, h, req); len(again) != len(b) {
				t.Errorf("%d bytes became %d", len(b), len(again))
			}
			if m, ok := req.(*proto.ModifyQP); ok {
				m.Attr.Verbs()
			}
		}
		_ = proto.Decode(body, reply)
		_, _, _ = proto.DecodeEvent(body)
	})
}

func Example() {
	b := proto.Append(nil, proto.Header{Type: proto.TCreateCQ, Seq: 1}, &proto.CreateCQ{Depth: 16})
	h, body, err := proto.Split(b)
	var m proto.CreateCQ
	fmt.Println(h.Seq, err, proto.Decode(body, &m), m.Depth)
	// Output:
	// 1 <nil> <nil> 16
}
