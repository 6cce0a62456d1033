// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/confine"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// The test binary is also the processes that tests start: the environment names the role.
const (
	childRole = "SRD_TEST_ROLE"
	childDir  = "SRD_TEST_DIR"
	childAddr = "SRD_TEST_ADDR" // of a peer; without it, it is on the loopback device
)

func TestMain(m *testing.M) {
	confine.Main()
	switch role := os.Getenv(childRole); role {
	case "":
		engines.Main(m)
	case "server":
		childMain(serverChild)
	case "listener":
		childMain(listenerChild)
	case "slow":
		childMain(slowChild)
	case "fuse":
		childMain(fuseChild)
	case "holder":
		childMain(holderChild)
	case "peer":
		childMain(peerChild)
	case "connected":
		childMain(connectedChild)
	case "capable":
		childMain(capableChild)
	case "many":
		childMain(manyChild)
	default:
		panic("unknown role " + role)
	}
}

func childMain(f func(dir string, in *bufio.Scanner) error) {
	go func() { // a child without a parent ends
		time.Sleep(2 * testkit.Patience)
		os.Exit(3)
	}()
	if err := f(os.Getenv(childDir), bufio.NewScanner(os.Stdin)); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// process is a child, with the lines that it prints.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

func start(t testing.TB, role, dir string) *process {
	t.Helper()
	return startWith(t, role, dir, nil)
}

func startWith(t testing.TB, role, dir string, attr *syscall.SysProcAttr, env ...string) *process {
	t.Helper()
	cmd := exec.Command("/proc/self/exe") // the name may be out of an unprivileged process's reach
	cmd.Env = append(os.Environ(), childRole+"="+role, childDir+"="+dir)
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = attr
	cmd.Stderr = os.Stderr
	return run(t, cmd)
}

// run starts a child.
func run(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, lines: make(chan string, 1000)}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(p.kill)
	return p
}

// kill ends the child at once, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *process) say(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
}

// line returns the next line of the child. prefix is what it must begin with.
func (p *process) line(prefix string) string {
	p.t.Helper()
	select {
	case l, ok := <-p.lines:
		rest, found := strings.CutPrefix(l, prefix)
		if !ok || !found {
			p.t.Fatalf("the process said %q, not %q", l, prefix)
		}
		return rest
	case <-time.After(testkit.Patience):
		p.t.Fatalf("the process did not say %q", prefix)
	}
	return ""
}

// serverChild serves a loopback engine until it is killed.
func serverChild(dir string, in *bufio.Scanner) error {
	s, err := device.New(device.Config{Socket: proto.SocketPath(dir, "lo"), Mode: 0o666})
	if err != nil {
		return err
	}
	dev, err := nic.OpenLoopback(nic.Options{Feeder: s.Feeder()})
	if err != nil {
		return err
	}
	if err := s.Serve(dev); err != nil {
		return err
	}
	fmt.Println("serves")
	for in.Scan() {
		fmt.Println(runtime.NumGoroutine())
	}
	return nil
}

const (
	peerBytes = 4 << 20
	chunk     = 64 << 10
)

// address is what two peers tell each other.
type address struct {
	Addr      netip.Addr
	QPN, RKey uint32
	Dst, Src  uint64 // addresses of the memory that is written to and read from
	Seed      byte
}

// peer is a process that does what its parent says with another process.
type peer struct {
	dev      *client.Device
	cq       verbs.CQ
	qp       verbs.QP
	mr       verbs.MR
	src, dst []byte
	own, far address
	round    byte // number of checks; the data of each is different
}

// patient has a silent peer of another host be given up after 7 s (qp.RetryBound): the agent of that host may stand still
// while the one of this host does not. On one host both are one engine.
func patient(a *verbs.Attr) {
	if os.Getenv(childAddr) != "" {
		a.Timeout = 16
	}
}

// childPort is the interface of a child, and its address.
func childPort() (ifname string, addr netip.Addr) {
	if v := os.Getenv(childAddr); v != "" {
		return topo.IfName, netip.MustParseAddr(v)
	}
	return "lo", here
}

func openPeer(dir string) (*peer, error) {
	ifname, addr := childPort()
	d, err := client.Open(context.Background(), ifname, client.Config{RunDir: dir})
	if err != nil {
		return nil, err
	}
	p := &peer{dev: d}
	pd, err := d.AllocPD()
	if err != nil {
		return nil, err
	}
	if p.cq, err = d.CreateCQ(1024); err != nil {
		return nil, err
	}
	buf, err := d.Alloc(2 * peerBytes)
	if err != nil {
		return nil, err
	}
	p.src, p.dst = buf[:peerBytes], buf[peerBytes:]
	if p.mr, err = pd.RegMR(buf, allRights); err != nil {
		return nil, err
	}
	p.qp, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: p.cq, RecvCQ: p.cq, MaxSend: 256, MaxRecv: 256})
	p.own = address{Addr: addr, RKey: p.mr.RKey(), Src: p.mr.VA(), Dst: p.mr.VA() + peerBytes, Seed: byte(os.Getpid())}
	fill(p.src, p.own.Seed)
	if err == nil {
		p.own.QPN = p.qp.QPN()
	}
	return p, err
}

// introduce prints what the other peer must know.
func (p *peer) introduce() {
	b, _ := json.Marshal(p.own)
	fmt.Printf("address %s\n", b)
}

// fill fills memory with bytes that depend on a seed and on the place.
func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = seed + byte(i) + byte(i>>8)*3 + byte(i>>16)*5
	}
}

func peerChild(dir string, in *bufio.Scanner) error {
	p, err := openPeer(dir)
	if err != nil {
		return err
	}
	p.introduce()
	for in.Scan() {
		verb, rest, _ := strings.Cut(in.Text(), " ")
		switch verb {
		case "connect":
			if err = json.Unmarshal([]byte(rest), &p.far); err == nil {
				local, remote := verbs.Endpoint{Addr: p.own.Addr, QPN: p.own.QPN}, verbs.Endpoint{Addr: p.far.Addr, QPN: p.far.QPN}
				attr := verbs.DefaultAttr()
				patient(&attr)
				err = verbs.Connect(p.qp, local, remote, attr)
			}
		case "forever": // never ends
			fmt.Println("done")
			for err == nil {
				err = p.transfer(rest)
			}
		case "register": // never ends
			fmt.Println("done")
			for err == nil {
				err = p.register()
			}
		case "counter":
			fmt.Println(counterOf(p.dev, rest))
		case "fatal":
			err = p.waitFatal()
		case "check":
			err = p.check()
		case "again":
			if p, err = p.again(dir, rest == "fatal"); err == nil {
				p.introduce()
				continue
			}
		default:
			err = p.transfer(verb)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", verb, err)
		}
		fmt.Println("done")
	}
	return nil
}

// check compares what has arrived, and has other data for the next transfer.
func (p *peer) check() error {
	want := make([]byte, len(p.dst))
	if fill(want, p.far.Seed+p.round); !bytes.Equal(p.dst, want) {
		return errors.New("the data is not that of the peer")
	}
	clear(p.dst)
	p.round++
	fill(p.src, p.own.Seed+p.round)
	return nil
}

// transfer moves all of one side's source to the other side's destination: to the peer by write and
// send, from it by read. With send, this side receives as much as it sends.
func (p *peer) transfer(how string) error {
	local := func(base uint64, i int) []verbs.SGE {
		return []verbs.SGE{{Addr: base + uint64(i*chunk), Len: chunk, LKey: p.mr.LKey()}}
	}
	const chunks = peerBytes / chunk
	missing := chunks
	if how == "send" {
		missing *= 2
		for i := range chunks {
			if err := p.qp.PostRecv(&verbs.RecvWR{ID: uint64(1000 + i), SGL: local(p.own.Dst, i)}); err != nil {
				return err
			}
		}
	}
	for i := range chunks {
		wr := verbs.SendWR{ID: uint64(i), Flags: verbs.Signaled, SGL: local(p.own.Src, i), RKey: p.far.RKey}
		switch how {
		case "write":
			wr.Op, wr.RemoteAddr = verbs.OpWrite, p.far.Dst+uint64(i*chunk)
		case "read":
			wr.Op, wr.RemoteAddr, wr.SGL = verbs.OpRead, p.far.Src+uint64(i*chunk), local(p.own.Dst, i)
		case "send":
			wr.Op = verbs.OpSend
		default:
			return fmt.Errorf("unknown command %q", how)
		}
		if err := p.qp.PostSend(&wr); err != nil {
			return err
		}
	}
	return p.collect(missing)
}

// collect waits for completions.
func (p *peer) collect(missing int) error {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	var c [64]verbs.Completion
	for missing > 0 {
		if err := p.cq.Wait(ctx, false); err != nil {
			return err
		}
		n := p.cq.Poll(c[:])
		for _, w := range c[:n] {
			if w.Status != verbs.StatusSuccess {
				return fmt.Errorf("work request %d: %s", w.WRID, w.Status)
			}
		}
		missing -= n
	}
	return nil
}

// waitFatal waits for a completion that never comes, until the server dies.
func (p *peer) waitFatal() error {
	fmt.Println("done")
	if err := p.cq.Wait(context.Background(), false); !errors.Is(err, verbs.ErrGone) {
		return fmt.Errorf("the wait returned %w", err)
	}
	for e := range p.dev.Events() {
		if e.Type == verbs.EventDeviceFatal {
			if !errors.Is(e.Err, verbs.ErrGone) {
				return e.Err
			}
			fmt.Println("ended:", e.Err)
			break
		}
	}
	if err := p.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}); !errors.Is(err, verbs.ErrGone) {
		return fmt.Errorf("a post returned %w", err)
	}
	if _, err := p.dev.CreateCQ(1); !errors.Is(err, verbs.ErrGone) {
		return fmt.Errorf("a call returned %w", err)
	}
	return p.dev.Close()
}
