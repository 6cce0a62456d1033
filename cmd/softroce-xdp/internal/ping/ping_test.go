// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/rping"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

// place is a device and a server on it.
type place struct {
	dev  *cmpeer.LoopDevice
	port string
	stop func() error // function that ends the server
	mu   sync.Mutex
	said strings.Builder
}

func (p *place) serve(t *testing.T, ctx context.Context, address string, more ...rdma.Option) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	l := testkit.Must1(rdma.Listen(ctx, p.dev, address, append(rping.Options(), more...)...))(t)
	_, p.port, _ = net.SplitHostPort(l.Addr().String())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, l, func(line string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			fmt.Fprintln(&p.said, line)
		})
	}()
	p.stop = sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-done, l.Close())
	})
	t.Cleanup(func() { testkit.Must(t, p.stop()) })
}

// count is how often the server has said something.
func (p *place) count(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Count(p.said.String(), text)
}

func newPlace(t *testing.T) (context.Context, *place) {
	t.Helper()
	ctx := testkit.Context(t)
	dev := testkit.Must1(cmpeer.Open(cmpeer.Config{CM: cm.Config{ResponseTimeout: 8, Retries: 15, Timewait: 10 * time.Millisecond}}))(t)
	t.Cleanup(func() { testkit.Must(t, dev.Close()) })
	return ctx, &place{dev: dev}
}

func (p *place) client(host string, count uint64, report func(Trip)) *Client {
	return &Client{
		Device: p.dev, Start: func(net.Addr) {}, Report: report,
		Plan: Plan{Server: net.JoinHostPort(host, p.port), Count: count, Size: 100, Timeout: time.Minute, Verify: true},
	}
}

// With encryption both ends need the key of the other one; a plain client is told why it is refused.
func TestEncryptedPing(t *testing.T) {
	ctx, p := newPlace(t)
	id := testkit.Must1(seal.NewIdentity())(t)
	encrypted := rdma.WithEncryption(rdma.Encryption{
		Identity: id, Peers: func(netip.Addr) []seal.PublicKey { return []seal.PublicKey{id.Public()} },
	})
	p.serve(t, ctx, ":0", encrypted)
	c := p.client("127.0.0.1", 5, func(Trip) {})
	c.Options = []rdma.Option{encrypted}
	s := testkit.Must1(c.Run(ctx))(t)
	if s.Answered != 5 {
		t.Errorf("%+v", s)
	}
	if _, err := p.client("127.0.0.1", 1, func(Trip) {}).Run(ctx); err == nil || !strings.Contains(err.Error(), "takes encrypted connections only") {
		t.Errorf("a plain client: %v", err)
	}
}

func TestPing(t *testing.T) {
	ctx, p := newPlace(t)
	p.serve(t, ctx, ":0")
	for _, host := range []string{"127.0.0.1", "::1"} {
		var seqs []uint64
		s, err := p.client(host, 5, func(x Trip) {
			if x.Err != nil || x.Time <= 0 {
				t.Errorf("%+v", x)
			}
			seqs = append(seqs, x.Seq)
		}).Run(ctx)
		testkit.Must(t, err)
		testkit.Must(t, s.Err())
		if fmt.Sprint(seqs) != "[1 2 3 4 5]" || s.Sent != 5 || s.Answered != 5 || s.Lost+s.Wrong != 0 ||
			s.Min <= 0 || s.Min > s.Avg || s.Avg > s.Max || s.P99 < s.Min || s.P99 > s.Max {
			t.Errorf("%v: %+v", seqs, s)
		}
	}
	for p.count("disconnected after 5 round trips, the last one of 100 bytes\n") != 2 {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the server said:\n%s", p.said.String())
		}
	}
}

// Many clients at a time, more than a server has room for, all get their turn.
func TestManyClients(t *testing.T) {
	ctx, p := newPlace(t)
	p.serve(t, ctx, ":0")
	var all sync.WaitGroup
	for range MaxClients + 10 {
		all.Go(func() {
			if s, err := p.client("127.0.0.1", 3, func(Trip) {}).Run(ctx); err != nil || s.Answered != 3 {
				t.Error(s, err)
			}
		})
	}
	all.Wait()
}

// What is asked while there is no server is lost; the client connects again when there is one.
func TestServerRestarts(t *testing.T) {
	ctx, p := newPlace(t)
	p.serve(t, ctx, ":0")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var refused, lost uint64
	s, err := p.client("127.0.0.1", 0, func(x Trip) {
		switch {
		case x.Err == nil && lost > 0:
			cancel()
		case x.Err == nil && x.Seq == 3:
			testkit.Must(t, p.stop())
		case x.Err != nil:
			lost++
			if strings.Contains(x.Err.Error(), "nobody listens at this port") {
				if refused++; refused == 2 {
					p.serve(t, context.Background(), ":"+p.port)
				}
			}
		}
	}).Run(ctx)
	testkit.Must(t, err)
	if s.Lost != lost || s.Answered != s.Sent-lost || refused < 2 || s.Err() == nil {
		t.Errorf("%+v, %d lost, %d refused", s, lost, refused)
	}
}

// The end of the context ends a client that waits: for its turn, or for an answer.
func TestInterrupted(t *testing.T) {
	ctx, p := newPlace(t)
	p.serve(t, ctx, ":0")
	inner, cancel := context.WithCancel(ctx)
	c := p.client("127.0.0.1", 0, func(Trip) { cancel() })
	c.Plan.Interval = time.Hour
	s, err := c.Run(inner)
	testkit.Must(t, err)
	testkit.Must(t, s.Err())
	if s.Sent != 1 || s.Answered != 1 {
		t.Errorf("%+v", s)
	}
	testkit.Must(t, p.stop())

	l, err := rdma.Listen(ctx, p.dev, ":"+p.port, rping.Options()...) // accepts, and is silent
	testkit.Must(t, err)
	defer l.Close()
	inner, cancel = context.WithCancel(ctx)
	go func() {
		if conn, err := l.Accept(ctx); err == nil {
			defer conn.Close()
			var b [16]byte
			_, _ = conn.Recv(ctx, b[:]) // the round trip has begun
			cancel()
			<-ctx.Done()
		}
	}()
	ctxErr := p.client("127.0.0.1", 0, func(x Trip) { t.Errorf("%+v", x) })
	if s, err = ctxErr.Run(inner); err != nil || s.Sent != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestNoServer(t *testing.T) {
	ctx, p := newPlace(t)
	p.port = "9"
	if _, err := p.client("127.0.0.1", 1, nil).Run(ctx); err == nil || !strings.Contains(err.Error(), "run `softroce-xdp ping --listen`") {
		t.Error(err)
	}
	p.dev.Close()
	if _, err := p.client("127.0.0.1", 1, nil).Run(ctx); err == nil {
		t.Error("a device that was closed connects")
	}
}

// The device of client and server ends, as at an upgrade of the agent, and is not served for some attempts: both
// open it again, and the round trips in between are lost.
func TestDeviceIsOpenedAgain(t *testing.T) {
	ctx, first := newPlace(t)
	_, second := newPlace(t)
	var attempts atomic.Int32
	serves := make(chan struct{})
	again := func(context.Context) (verbs.Device, error) {
		if attempts.Add(1) <= 2 {
			return nil, fmt.Errorf("upgrade: %w", rdma.ErrNotServing)
		}
		return second.dev, nil
	}
	serving, stop := context.WithCancel(ctx)
	server := Server{
		Device: first.dev, Address: "127.0.0.1:7174", Options: rping.Options(), Reopen: again, Tell: func(string) {},
		Listening: func(net.Addr) { serves <- struct{}{} },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Run(serving) }()
	<-serves
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lost := 0
	first.port = "7174"
	c := first.client("127.0.0.1", 0, func(x Trip) {
		switch {
		case x.Err == nil && x.Seq == 3:
			testkit.Must(t, first.dev.Close())
			<-serves
		case x.Err != nil:
			lost++
		case lost > 0:
			cancel()
		}
	})
	c.Reopen = func(context.Context) (verbs.Device, error) { return second.dev, nil }
	s := testkit.Must1(c.Run(ctx))(t)
	if s.Answered != s.Sent-uint64(lost) || lost == 0 || c.Device != verbs.Device(second.dev) || attempts.Load() != 3 {
		t.Errorf("%+v, %d lost, %d attempts to open", s, lost, attempts.Load())
	}
	stop()
	testkit.Must(t, <-ended)
}

// A device that cannot be opened again ends the server, with both reasons.
func TestDeviceStaysAway(t *testing.T) {
	ctx, p := newPlace(t)
	server := Server{
		Device: p.dev, Address: "127.0.0.1:7174", Options: rping.Options(), Tell: func(string) {},
		Reopen:    func(context.Context) (verbs.Device, error) { return nil, rdma.ErrNoNIC },
		Listening: func(net.Addr) { testkit.Must(t, p.dev.Close()) },
	}
	if err := server.Run(ctx); !errors.Is(err, rdma.ErrNoNIC) || !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}

// The end of a connection is explained alike when it is being made and later.
func TestExplainEnd(t *testing.T) {
	c := Client{Plan: Plan{Server: "host2:7174"}}
	for _, cause := range []error{rdma.ErrPeerClosed, cm.ErrHungUp} {
		if err := c.explain(cause); !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "host2:7174 has ended the connection: ") {
			t.Error(err)
		}
	}
}

func TestText(t *testing.T) {
	for size := range 100 {
		b := Text(7, size+1)
		if len(b) != size+1 || b[size] != 0 || bytes.IndexByte(b, 0) != size {
			t.Errorf("%q", b)
		}
	}
	if a, b := string(Text(7, 30)), "softroce-ping-7: "; !strings.HasPrefix(a, b) {
		t.Error(a)
	}
	if bytes.Equal(Text(1, 8000)[100:], Text(2, 8000)[100:]) {
		t.Error("two round trips have the same data")
	}
}

func TestSummary(t *testing.T) {
	s := newSummary(Plan{Server: "h:1", Verify: true})
	var b strings.Builder
	s.Write(&b)
	for i := range 100 {
		s.add(Trip{Time: time.Duration(i+1) * time.Millisecond})
	}
	s.Write(&b)
	testkit.Must(t, s.Err())
	s.add(Trip{Time: time.Hour, Err: errors.New("gone")})
	s.Write(&b)
	if err := s.Err(); err == nil || err.Error() != "1 of 101 round trips lost" {
		t.Error(err)
	}
	s.add(Trip{Time: 2 * time.Hour, Err: fmt.Errorf("x: %w", rping.ErrData)})
	s.Write(&b)
	if err := s.Err(); err == nil || err.Error() != "wrong data came back in 1 of 101 round trips" {
		t.Error(err)
	}
	want := `--- h:1 ---
0 round trips: 0 answered, 0 lost (0%)
--- h:1 ---
100 round trips: 100 answered, 0 lost (0%), all data verified
min 1ms, avg 50.5ms, p99 99ms, max 100ms
--- h:1 ---
101 round trips: 100 answered, 1 lost (0.99%), all data verified
min 1ms, avg 50.5ms, p99 99ms, max 100ms
--- h:1 ---
102 round trips: 101 answered, 1 lost (0.98%), 1 with wrong data
min 1ms, avg 71.3s, p99 100ms, max 7200s
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}
