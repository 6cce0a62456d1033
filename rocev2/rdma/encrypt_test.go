// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

// identity returns a new key pair.
func identity(t *testing.T) *seal.Identity {
	t.Helper()
	i, err := seal.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// knows is an Encryption of a host that knows the keys of others, at all addresses.
func knows(own *seal.Identity, others ...*seal.Identity) rdma.Encryption {
	return rdma.Encryption{Identity: own, Peers: func(netip.Addr) (keys []seal.PublicKey) {
		for _, i := range others {
			keys = append(keys, i.Public())
		}
		return keys
	}}
}

func counterOf(t *testing.T, dev *cmpeer.LoopDevice, name string) uint64 {
	t.Helper()
	for _, c := range dev.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("no counter %s", name)
	return 0
}

// plainPackets is how many packets a device has sent that are not encrypted, by counters of one moment.
func plainPackets(dev *cmpeer.LoopDevice) (n uint64) {
	for _, c := range dev.Counters() {
		switch c.Name {
		case "sent_pkts":
			n += c.Value
		case "tx_encrypted":
			n -= c.Value
		}
	}
	return n
}

// Messages, WRITE and READ of an encrypted connection are exact, all its packets are encrypted, and
// both ends get the private data that is left.
func TestEncryptedConnection(t *testing.T) {
	dev := openLoop(t, cmpeer.Config{CM: fast})
	a, b := identity(t), identity(t)
	l := listen(t, dev, ":0", rdma.WithEncryption(knows(b, identity(t), a)), rdma.WithPrivate([]byte("hello")))
	go echo(l)
	for _, suite := range []seal.Suite{seal.AES128GCM, seal.AES256GCM} {
		e := knows(a, b)
		e.Suite, e.Limits = suite, seal.Limits{MaxBlocks: seal.MinBlocks} // a new key for each 64 KB
		before := plainPackets(dev)
		ctx := testkit.Context(t)
		_, port, _ := net.SplitHostPort(l.Addr().String())
		c, err := rdma.Dial(ctx, dev, "127.0.0.1:"+port, rdma.WithEncryption(e))
		if err != nil {
			t.Fatal(err)
		}
		if attr, err := c.QP().Query(); err != nil || attr.PMTU.Bytes() != 4096 {
			t.Errorf("PMTU %d, %v", attr.PMTU.Bytes(), err)
		}
		if p := c.PeerPrivate(); !bytes.HasPrefix(p, []byte("hello\x00")) {
			t.Errorf("private data of the listener: %q", p)
		}
		sent, got := bytes.Repeat([]byte("sixteen bytes - "), 1000), make([]byte, 1<<14)
		for range 20 {
			if err := c.Send(ctx, sent); err != nil {
				t.Fatal(err)
			}
			if n, err := c.Recv(ctx, got); err != nil || !bytes.Equal(got[:n], sent) {
				t.Fatalf("%d bytes, %v", n, err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if n := plainPackets(dev) - before; n != 0 {
			t.Errorf("%v: %d plain packets", suite, n)
		}
	}
	if counterOf(t, dev, "rx_decrypted") == 0 {
		t.Error("nothing was decrypted")
	}
}

// A queue pair of the application is encrypted as well.
func TestEncryptedLink(t *testing.T) {
	dev := openLoop(t, cmpeer.Config{CM: fast})
	a, b := identity(t), identity(t)
	l := listen(t, dev, ":0", rdma.WithEncryption(knows(b, a)))
	ctx := testkit.Context(t)
	pd, _ := dev.AllocPD()
	cq, _ := dev.CreateCQ(16)
	qp := func() verbs.QP {
		q, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	accepted := make(chan error, 1)
	go func() {
		r, err := l.Next(ctx)
		if err == nil {
			_, err = r.AcceptQP(ctx, qp())
		}
		accepted <- err
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	x := qp()
	link, err := rdma.Connect(ctx, dev, "127.0.0.1:"+port, x, rdma.WithEncryption(knows(a, b)))
	if err := errors.Join(err, <-accepted); err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	if err := x.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled}); err != nil {
		t.Fatal(err)
	}
	if err := cq.Wait(ctx, false); err != nil {
		t.Fatal(err)
	}
	var c [1]verbs.Completion
	if cq.Poll(c[:]); c[0].Status != verbs.StatusSuccess || counterOf(t, dev, "rx_decrypted") < 2 {
		t.Errorf("%+v, %d packets decrypted", c[0], counterOf(t, dev, "rx_decrypted"))
	}
}

// A connection that both ends do not want encrypted with the same keys is refused at once, with an
// error that says what to do, and no data packet leaves.
func TestEncryptionRefuses(t *testing.T) {
	a, b, third := identity(t), identity(t), identity(t)
	aes256 := knows(b, a)
	aes256.Suite = seal.AES256GCM
	with := func(e rdma.Encryption) []rdma.Option { return []rdma.Option{rdma.WithEncryption(e)} }
	for _, c := range []struct {
		name         string
		dial, listen []rdma.Option
		want         string // part of the error of Dial, or of the reason of the peer
	}{
		{"plain server", with(knows(a, b)), nil, rdma.ErrNotEncrypted.Error()},
		{"plain client", nil, with(knows(b, a)), "takes encrypted connections only"},
		{"client unknown to the server", with(knows(a, b)), with(knows(b, third)), "your public key"},
		{"server has another key", with(knows(a, third)), with(knows(b, a)), "your public key"},
		{"server has no keys at all", with(knows(a, b)), with(knows(b)), "no public key of 127.0.0.1"},
		{"other suite", with(knows(a, b)), with(aes256), "your public key"},
		{"client has no key", with(knows(a)), with(knows(b, a)), "add the key of that host"},
		{"client has two keys", with(knows(a, b, third)), with(knows(b, a)), "leave one"},
		{"no identity", with(rdma.Encryption{}), nil, "Identity"},
		{"private data", append(with(knows(a, b)), rdma.WithPrivate([]byte("x"))), nil, "no room for both"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dev := openLoop(t, cmpeer.Config{CM: fast})
			l := listen(t, dev, ":0", c.listen...)
			go echo(l)
			_, port, _ := net.SplitHostPort(l.Addr().String())
			_, err := rdma.Dial(testkit.Context(t), dev, "127.0.0.1:"+port, c.dial...)
			if err == nil {
				t.Fatal("connected")
			}
			text := err.Error()
			if r := (*rdma.RejectedError)(nil); errors.As(err, &r) {
				text += string(r.Private)
			}
			if !strings.Contains(text, c.want) {
				t.Errorf("%v; want %q", text, c.want)
			}
			if n := counterOf(t, dev, "tx_data_pkts"); n != 0 {
				t.Errorf("%d packets of data", n)
			}
		})
	}
}

// A listener refuses at once what would have it reject all connections.
func TestListenRefusesEncryption(t *testing.T) {
	dev := openLoop(t, cmpeer.Config{CM: fast})
	a := identity(t)
	with := func(change func(*rdma.Encryption)) rdma.Option {
		e := knows(a, a)
		change(&e)
		return rdma.WithEncryption(e)
	}
	for want, list := range map[string][]rdma.Option{
		"Identity":    {with(func(e *rdma.Encryption) { e.Identity = nil })},
		"Peers":       {with(func(e *rdma.Encryption) { e.Peers = nil })},
		"suite 9":     {with(func(e *rdma.Encryption) { e.Suite = 9 })},
		"MaxBlocks":   {with(func(e *rdma.Encryption) { e.Limits.MaxBlocks = seal.MaxBlocks + 1 })},
		"at most 136": {with(func(*rdma.Encryption) {}), rdma.WithPrivate(make([]byte, 137))},
		"at most 196": {rdma.WithPrivate(make([]byte, 197))},
	} {
		if _, err := rdma.Listen(testkit.Context(t), dev, ":0", list...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	listen(t, dev, ":0", with(func(*rdma.Encryption) {}), rdma.WithPrivate(make([]byte, 136)))
}
