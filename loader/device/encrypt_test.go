// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Two clients of a server connect with encryption: the handshake is theirs, the keys go to the server in a
// message, and all packets of their queue pairs are encrypted.
func TestEncryptedClients(t *testing.T) {
	_, dir := serve(t, device.Config{})
	a, b := open(t, dir), open(t, dir)
	var ids [2]*seal.Identity
	for i := range ids {
		var err error
		if ids[i], err = seal.NewIdentity(); err != nil {
			t.Fatal(err)
		}
	}
	option := func(own, peer int) rdma.Option {
		return rdma.WithEncryption(rdma.Encryption{
			Identity: ids[own], Limits: seal.Limits{MaxBlocks: proto.MinBlocks},
			Peers: func(netip.Addr) []seal.PublicKey { return []seal.PublicKey{ids[peer].Public()} },
		})
	}
	ctx := testkit.Context(t)
	l, err := rdma.Listen(ctx, b, "127.0.0.1:0", option(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type accepted struct {
		c   *rdma.Conn
		err error
	}
	server := make(chan accepted, 1)
	go func() {
		c, err := l.Accept(ctx)
		server <- accepted{c, err}
	}()
	x, err := rdma.Dial(ctx, a, l.Addr().String(), option(0, 1))
	y := <-server
	if err := errors.Join(err, y.err); err != nil {
		t.Fatal(err)
	}
	sent, got := bytes.Repeat([]byte("sixteen bytes - "), 1000), make([]byte, rdma.DefaultMaxMessage)
	for range 30 {
		if err := x.Send(ctx, sent); err != nil {
			t.Fatal(err)
		}
		if n, err := y.c.Recv(ctx, got); err != nil || !bytes.Equal(got[:n], sent) {
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
	sealed, all := counterOf(a, "tx_encrypted"), counterOf(a, "rx_decrypted")
	if sealed < 30 || all < 30 {
		t.Errorf("%d packets encrypted, %d decrypted", sealed, all)
	}
	if err := errors.Join(x.Close(), y.c.Close()); err != nil {
		t.Error(err)
	}
	go func() {
		if _, err := l.Accept(ctx); ctx.Err() == nil && !errors.Is(err, net.ErrClosed) { // it refuses the plain client, and waits for the next
			t.Errorf("a plain client was accepted, or: %v", err)
		}
	}()
	if _, err := rdma.Dial(ctx, a, l.Addr().String()); err == nil || !strings.Contains(err.Error(), "takes encrypted connections only") {
		t.Errorf("a plain client: %v", err)
	}
}

// The server refuses keys that would cost it much, and those of a queue pair that cannot take them.
func TestEncryptRefusesClient(t *testing.T) {
	_, dir := serve(t, device.Config{})
	e := newEnd(t, open(t, dir), 4096, verbs.QPInit{Type: verbs.RC})
	x := e.qp.(seal.Encrypter)
	for _, c := range []struct {
		keys   seal.Keys
		limits seal.Limits
		want   string
	}{
		{seal.Keys{Suite: 7}, seal.Limits{}, "suite 7"},
		{seal.Keys{Suite: 1}, seal.Limits{MaxBlocks: proto.MinBlocks - 1}, "choose at least 4096"},
		{seal.Keys{Suite: 1}, seal.Limits{Overlap: -1}, "not negative"},
		{seal.Keys{Suite: 1}, seal.Limits{}, ""},
		{seal.Keys{Suite: 1}, seal.Limits{}, "keys already"},
	} {
		err := x.Encrypt(c.keys, c.limits)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v; want %q", c.limits, err, c.want)
		}
	}
}
