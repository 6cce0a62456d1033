// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// connected is a process that connects by address, as its parent says.
type connected struct {
	dir    string
	dev    verbs.Device
	l      *rdma.Listener
	c      *rdma.Conn
	region *rdma.Region
	remote rdma.Remote
}

const (
	regionBytes = 1 << 20
	clientSeed  = 7
	serverSeed  = 99
)

func connectedChild(dir string, in *bufio.Scanner) error {
	dev, err := openDefault(context.Background(), dir)
	if err != nil {
		return err
	}
	p := &connected{dir: dir, dev: dev}
	fmt.Println("ready")
	for in.Scan() {
		verb, rest, _ := strings.Cut(in.Text(), " ")
		said, err := p.do(verb, rest)
		if err != nil {
			return fmt.Errorf("%s: %w", verb, err)
		}
		fmt.Println("done " + said)
	}
	return nil
}

// reopen opens the device again when it has ended.
func (p *connected) reopen(ctx context.Context) error {
	for e := range p.dev.Events() {
		if e.Type == verbs.EventDeviceFatal {
			break
		}
	}
	if err := p.dev.Close(); err != nil {
		return err
	}
	var err error
	for ctx.Err() == nil {
		if p.dev, err = openDefault(ctx, p.dir); !errors.Is(err, rdma.ErrNotServing) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("%w after %w", ctx.Err(), err)
}

func openDefault(ctx context.Context, dir string) (verbs.Device, error) {
	ifname, _ := childPort()
	return rdma.Open(ctx, ifname, rdma.WithConfig(client.Config{RunDir: dir}))
}

func (p *connected) do(verb, rest string) (said string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	buf := make([]byte, 5000)
	switch verb {
	case "listen":
		_, addr := childPort()
		if p.l, err = rdma.Listen(ctx, p.dev, netip.AddrPortFrom(addr, 0).String()); err == nil {
			said = p.l.Addr().String()
		}
	case "dial":
		p.c, err = rdma.Dial(ctx, p.dev, rest, rdma.WithPrivate([]byte("hello")), rdma.WithAttr(patient))
	case "accept":
		if p.c, err = p.l.Accept(ctx); err == nil && !bytes.HasPrefix(p.c.PeerPrivate(), []byte("hello")) {
			err = fmt.Errorf("private data %q", p.c.PeerPrivate())
		}
	case "send":
		fill(buf, clientSeed)
		err = p.c.Send(ctx, buf)
	case "recv":
		want := make([]byte, len(buf))
		fill(want, clientSeed)
		var n int
		if n, err = p.c.Recv(ctx, buf); err == nil && !bytes.Equal(buf[:n], want) {
			err = fmt.Errorf("%d bytes, or others than were sent", n)
		}
	case "region":
		mem, err := rdma.Alloc(p.dev, regionBytes)
		if err != nil {
			return "", err
		}
		fill(mem, serverSeed)
		if p.region, err = p.c.Register(mem, allRights); err != nil {
			return "", err
		}
		b, _ := p.region.Remote().MarshalBinary()
		return hex.EncodeToString(b), nil
	case "check":
		want := make([]byte, regionBytes)
		if fill(want, clientSeed); !bytes.Equal(p.region.Bytes(), want) {
			err = fmt.Errorf("the memory is not what the peer wrote")
		}
	case "far":
		b, _ := hex.DecodeString(rest)
		err = p.remote.UnmarshalBinary(b)
	case "read":
		got, want := make([]byte, regionBytes), make([]byte, regionBytes)
		fill(want, serverSeed)
		if err = p.c.Read(ctx, got, p.remote); err == nil && !bytes.Equal(got, want) {
			err = fmt.Errorf("the memory read is not that of the peer")
		}
	case "write":
		b := make([]byte, regionBytes)
		fill(b, clientSeed)
		err = p.c.Write(ctx, b, p.remote)
	case "end": // the peer ends
		if n, e := p.c.Recv(ctx, buf); e == nil {
			err = fmt.Errorf("%d bytes were received", n)
		} else if ctx.Err() == nil {
			said = e.Error()
		} else {
			err = e
		}
	case "dials": // never ends
		fmt.Println("done")
		for err == nil {
			var c *rdma.Conn
			if c, err = rdma.Dial(ctx, p.dev, rest, rdma.WithPrivate([]byte("hello"))); err == nil {
				err = c.Close()
			}
		}
	case "gone": // a server whose device ends
		if _, err := p.l.Accept(ctx); !errors.Is(err, verbs.ErrGone) {
			return "", fmt.Errorf("accept: %w", err)
		}
		return "", p.reopen(ctx)
	case "lost": // a client whose device ends
		if _, err := p.c.Recv(ctx, buf); !errors.Is(err, verbs.ErrGone) {
			return "", fmt.Errorf("receive: %w", err)
		}
		return "", p.reopen(ctx)
	case "counter":
		said = fmt.Sprint(counterOf(p.dev, rest))
	case "close":
		err = p.c.Close()
	default:
		err = fmt.Errorf("unknown command")
	}
	return said, err
}
