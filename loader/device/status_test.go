// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// The status of a process has every kind that a process has a limit of, each in a place of its own.
func TestStatusKinds(t *testing.T) {
	var p Process
	seen := map[*uint64]limits.Kind{}
	for _, k := range limits.Kinds() {
		at := p.of(k)
		if k == limits.Processes || k == limits.Calls { // of users only; a rate
			continue
		}
		if at == nil {
			t.Errorf("the status has no %s", k)
		} else if other, taken := seen[at]; taken {
			t.Errorf("%s and %s are one", k, other)
		}
		seen[at] = k
	}
}

// The waits of a process that is over its rate of control messages are in the status.
func TestStatusDelayed(t *testing.T) {
	c := &session{process: &process{}, socket: newSocket(nil, pairConn(t), nil), account: openAccount(t)}
	c.greeted.Store(true)
	for _, wait := range []time.Duration{shortWait / 2, 2 * shortWait} { // the first one is not waited for
		c.socket.costs.debt.Store(int64(wait))
		c.socket.pace()
	}
	s := &Server{sessions: map[*session]struct{}{c: {}}}
	want := uint64((2 * shortWait).Milliseconds())
	if got := statusReply(s.processes(), 0).Processes[0].CallsDelayed; got != want {
		t.Errorf("%d ms, want %d", got, want)
	}
}

func openAccount(t *testing.T) *limits.Process {
	t.Helper()
	p, err := limits.New(limits.Defaults()).Open(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A server of another version has other lengths of its replies; the error says what to do. Earlier servers had replies
// of 3848 bytes, with 120 bytes for each of 32 processes.
func TestStatusOfOtherVersion(t *testing.T) {
	dir := testkit.SocketDir(t)
	path := proto.SocketPath(dir, "eth0")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, _, err := proto.Read(conn, make([]byte, proto.MaxMessage)); err != nil {
			return
		}
		r := proto.Append(nil, proto.Header{Type: proto.TStatus | proto.Reply}, nil)
		_ = proto.Write(conn, append(r, make([]byte, 8+32*120)...))
	}()
	_, err = ReadStatus(t.Context(), path)
	if !errors.Is(err, proto.ErrVersion) || !strings.Contains(err.Error(), "a body of 3848 bytes") {
		t.Errorf("%v", err)
	}
}
