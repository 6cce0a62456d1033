// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// A server of another version refuses the client, whose error has both versions and says what to do.
func TestOtherVersion(t *testing.T) {
	hello := make(chan proto.Hello, 1)
	dir := listen(t, "eth0", func(c *net.UnixConn) {
		defer c.Close()
		b := make([]byte, proto.MaxMessage)
		n, _, err := proto.Read(c, b)
		if err != nil {
			return
		}
		h, body, err := proto.Split(b[:n])
		var m proto.Hello
		if err != nil || proto.Decode(body, &m) != nil {
			return
		}
		hello <- m
		why := proto.VersionError(m.Version, m.Version+1)
		r := proto.Header{Type: h.Type | proto.Reply, Seq: h.Seq, Status: proto.StatusOf(why)}
		_ = proto.Write(c, append(proto.Append(nil, r, nil), why.Error()...))
	})
	d, err := client.Open(t.Context(), "eth0", client.Config{RunDir: dir})
	if err == nil {
		d.Close()
		t.Fatal("a client opened the device of a server of another version")
	}
	if m := testkit.Receive(t, "a hello", hello); m.Version != proto.Version || m.Magic != proto.Magic {
		t.Errorf("the client said %+v", m)
	}
	if !errors.Is(err, proto.ErrVersion) || !strings.Contains(err.Error(), "install the same for both: 2 and 3") {
		t.Errorf("%v", err)
	}
}
