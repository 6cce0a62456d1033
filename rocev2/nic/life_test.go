// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/engine"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// traffic keeps WRITEs of n bytes from a to b going until a completion is no success
// or the device says no. It returns how many succeeded and the last status.
type traffic struct {
	done   chan struct{}
	ok     atomic.Int64
	status verbs.Status
	err    error
}

func startTraffic(a, b *side, n int) *traffic {
	tr := &traffic{done: make(chan struct{})}
	go func() {
		defer close(tr.done)
		wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: a.sge(0, n), RemoteAddr: b.va, RKey: b.key}
		out := make([]verbs.Completion, 16)
		for posted := 0; ; {
			for ; posted < 16; posted++ {
				if tr.err = a.qp.PostSend(&wr); tr.err != nil {
					return
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
			if tr.err = a.cq.Wait(ctx, false); tr.err != nil {
				cancel()
				return
			}
			cancel()
			for _, c := range out[:a.cq.Poll(out)] {
				posted--
				if c.Status != verbs.StatusSuccess {
					tr.status = c.Status
					return
				}
				tr.ok.Add(1)
			}
		}
	}()
	return tr
}

func (tr *traffic) flows(t testing.TB) {
	t.Helper()
	before := tr.ok.Load()
	testkit.Eventually(t, "traffic", func() bool {
		select {
		case <-tr.done:
			t.Fatalf("traffic ended: status %s, %v", tr.status, tr.err)
		default:
		}
		return tr.ok.Load() >= before+20
	})
}

func (tr *traffic) ends(t testing.TB, within time.Duration) {
	t.Helper()
	select {
	case <-tr.done:
	case <-time.After(within):
		t.Fatalf("traffic goes on after %v", within)
	}
}

// short makes a peer that is silent be given up within seconds: two at least, so that one that
// is slow on a busy machine is not taken for silent.
func short(a *verbs.Attr) { a.Timeout, a.RetryCnt = 17, 3 }

func twoHosts(t testing.TB, flags ...string) []*engines.Host {
	t.Helper()
	hosts := engines.New(t, topo.Spec{Hosts: topo.Hosts(2)}, flags...)
	for _, h := range hosts {
		h.MustOpen(t, nic.Options{})
	}
	return hosts
}

func connected(t testing.TB, hosts []*engines.Host, change func(*verbs.Attr)) (a, b *side) {
	t.Helper()
	a, b = newSide(t, hosts[0], verbs.RC, 1<<16), newSide(t, hosts[1], verbs.RC, 1<<16)
	if err := engines.ConnectAttr(a.qp, b.qp, hosts[0].IPv4(), hosts[1].IPv4(), change); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// A queue pair that is destroyed in the middle of traffic, at either end: no other one
// notices, its number is nobody's, and nothing of it is left.
func TestDestroyUnderTraffic(t *testing.T) {
	hosts := twoHosts(t, "--policy", "mode=fixed")
	a, b := connected(t, hosts, short)
	other, otherB := connected(t, hosts, patient)
	bystander := startTraffic(other, otherB, 20000)
	tr := startTraffic(a, b, 20000)
	tr.flows(t)
	bystander.flows(t)

	if err := b.qp.Destroy(); err != nil { // the responder
		t.Fatal(err)
	}
	tr.ends(t, testkit.Patience)
	if tr.status != verbs.StatusRetryExceeded {
		t.Errorf("the peer is gone: status %s, %v", tr.status, tr.err)
	}
	bystander.flows(t)

	if err := other.qp.Destroy(); err != nil { // the requester
		t.Fatal(err)
	}
	if err := other.qp.Destroy(); !errors.Is(err, verbs.ErrDestroyed) {
		t.Errorf("destroyed twice: %v", err)
	}
	if err := other.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}); !errors.Is(err, verbs.ErrDestroyed) {
		t.Errorf("posted to a queue pair that is gone: %v", err)
	}
	if err := other.qp.PostRecv(&verbs.RecvWR{}); !errors.Is(err, verbs.ErrDestroyed) {
		t.Errorf("posted to a queue pair that is gone: %v", err)
	}
	if err := other.cq.Destroy(); err != nil {
		t.Error(err)
	}
	if n := steered(t, hosts[1]); n != 1 { // that of otherB
		t.Errorf("%d queue pairs are steered", n)
	}
}

func counter(d *nic.Device, name string) uint64 {
	for _, c := range d.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	panic("no counter " + name)
}

// steered counts the entries of a host's steer_table, and compares with the config. Nobody changes them meanwhile.
func steered(t testing.TB, h *engines.Host) int {
	t.Helper()
	n, config := steerEntries(t, h)
	if config != n {
		t.Errorf("config says %d queue pairs, the table %d", config, n)
	}
	return n
}

// steerEntries returns the number of queue pairs in a host's steer_table, and that of the config, which is read later.
func steerEntries(t testing.TB, h *engines.Host) (n, config int) {
	t.Helper()
	att, err := loader.Open(topo.IfName, h.LoaderOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer att.Close() // not at the test's end: this is asked many times
	var qpn uint32
	var s bpf.Steer
	for it := att.Maps.SteerTable.Iterate(); it.Next(&qpn, &s); {
		if qpn < 1<<24 { // the number of sockets has a key that is no QPN
			n++
		}
	}
	cfg, err := att.Config()
	if err != nil {
		t.Fatal(err)
	}
	return n, int(cfg.Steered)
}

// A device that is closed in the middle of traffic: everything completes as flushed,
// who waits returns, and the host is as before.
func TestCloseUnderTraffic(t *testing.T) {
	hosts := twoHosts(t, "--policy", "mode=fixed")
	a, b := connected(t, hosts, patient)
	tr := startTraffic(a, b, 20000)
	tr.flows(t)
	if _, err := hosts[0].Open(nic.Options{}); !errors.Is(err, loader.ErrEngineRunning) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("a second engine on the interface: %v", err)
	}
	if err := hosts[0].Dev.Close(); err != nil {
		t.Fatal(err)
	}
	tr.ends(t, testkit.Patience)
	if tr.status != verbs.StatusWRFlushed && !errors.Is(tr.err, verbs.ErrClosed) {
		t.Errorf("status %s, %v", tr.status, tr.err)
	}
	if _, err := a.dev.AllocPD(); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}); err == nil {
		t.Error("posted to a closed device")
	}
	if err := a.qp.Modify(verbs.Attr{}, 0); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("Modify after Close: %v", err)
	}
	if err := a.dev.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	for range a.dev.Events() { // it is closed
	}
	if n := steered(t, hosts[0]); n != 0 {
		t.Errorf("%d queue pairs are steered", n)
	}
	if cfg, err := hosts[0].Attachment(t).Config(); err != nil || cfg.Caps&uint32(bpf.CapSACK) != 0 {
		t.Errorf("caps %#x (%v)", cfg.Caps, err)
	}

	hosts[0].MustOpen(t, nic.Options{})
	a, b = connected(t, hosts, patient)
	startTraffic(a, b, 20000).flows(t)
}

// helper is an engine in a process of its own, for tests that kill it.
const helperEnv = "SOFTROCE_ENGINE_HELPER"

func helper(args string) error {
	f := strings.Split(args, ",")
	d, err := engine.Open(topo.IfName, loader.Options{PinRoot: f[0], RunDir: f[1]}, nic.Options{})
	if err != nil {
		return err
	}
	pd, err := d.AllocPD()
	if err != nil {
		return err
	}
	cq, err := d.CreateCQ(10)
	if err != nil {
		return err
	}
	x, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
	if err != nil {
		return err
	}
	fmt.Println("qpn", x.QPN())
	select {}
}

// An engine that was killed leaves entries behind. The agent removes them, and so does
// the next engine.
func TestKilled(t *testing.T) {
	hosts := engines.New(t, topo.Spec{Hosts: topo.Hosts(1)})
	h := hosts[0]
	for _, wait := range []bool{false, true} {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := h.Command(self)
		cmd.Env = append(os.Environ(), helperEnv+"="+h.LoaderOptions().PinRoot+","+h.LoaderOptions().RunDir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "qpn ") {
			t.Fatalf("%q, %v", line, err)
		}
		if _, err := h.Open(nic.Options{}); !errors.Is(err, loader.ErrEngineRunning) || !strings.Contains(err.Error(), fmt.Sprint(cmd.Process.Pid)) {
			t.Errorf("while another process has the engine: %v", err)
		}
		if n := steered(t, h); n != 1 {
			t.Errorf("%d queue pairs are steered", n)
		}
		if out, err := h.Product("detach", topo.IfName); err == nil || !strings.Contains(out, fmt.Sprint(cmd.Process.Pid)) {
			t.Errorf("detach under an engine: %v, %s", err, out)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if wait { // for the agent
			testkit.Eventually(t, "the agent removes the entries", func() error { // the config first
				if n, config := steerEntries(t, h); n != 0 || config != 0 {
					return fmt.Errorf("config says %d queue pairs, the table %d\n%s", config, n, h.Log())
				}
				return nil
			})
		}
		var d *nic.Device
		testkit.Eventually(t, "the engine opens", func() (err error) { // the agent may have the lease, to remove entries
			if d, err = h.Open(nic.Options{}); err != nil && !errors.Is(err, loader.ErrEngineRunning) {
				t.Fatal(err)
			}
			return err
		})
		if n := steered(t, h); n != 0 {
			t.Errorf("%d queue pairs are steered in a fresh engine", n)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The interface is deleted under an engine at work: its queue pairs are flushed and
// the application is told.
func TestInterfaceDeleted(t *testing.T) {
	hosts := twoHosts(t, "--policy", "mode=fixed")
	a, b := connected(t, hosts, patient)
	tr := startTraffic(a, b, 20000)
	tr.flows(t)
	link, err := hosts[0].Netlink().LinkByName(topo.IfName)
	if err != nil {
		t.Fatal(err)
	}
	if err := hosts[0].Netlink().LinkDel(link); err != nil {
		t.Fatal(err)
	}
	tr.ends(t, testkit.Patience)
	if tr.status != verbs.StatusWRFlushed && !errors.Is(tr.err, verbs.ErrGone) {
		t.Errorf("status %s, %v", tr.status, tr.err)
	}
	for e := range a.dev.Events() {
		if e.Type == verbs.EventDeviceFatal {
			if !errors.Is(e.Err, verbs.ErrGone) {
				t.Errorf("%v", e.Err)
			}
			break
		}
	}
	if _, err := a.dev.CreateCQ(1); !errors.Is(err, verbs.ErrGone) {
		t.Errorf("a device whose interface is gone: %v", err)
	}
	if err := a.dev.Close(); err != nil {
		t.Error(err)
	}
}

// Between two engines HELLO turns selective acknowledgement on by itself.
func TestSelective(t *testing.T) {
	hosts := twoHosts(t, "--policy", "mode=fixed")
	a, b := connected(t, hosts, patient)
	startTraffic(a, b, 20000).flows(t)
	table := hosts[0].Attachment(t)
	var row loader.Row
	testkit.Eventually(t, "both ends are selective, and the table has counted", func() error {
		x, err := a.qp.Query()
		y, err2 := b.qp.Query()
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if row, _, err = table.Lookup(hosts[1].IPv4()); err != nil {
			t.Fatal(err)
		}
		stamped := counter(hosts[0].Dev, "tx_stamped")
		// Each of them may be the last: the engine counts a packet at once, and reports it to the table later.
		if x.Selective && y.Selective && stamped > 0 && row.Regs.TxPackets > 0 && row.Regs.Caps&bpf.CapSACK != 0 {
			return nil
		}
		return fmt.Errorf("selective: %v, %v; %d packets stamped; the destination's entry: %+v\n%s%s", x.Selective, y.Selective,
			stamped, row.Regs, hosts[0].Log(), hosts[1].Log())
	})
	t.Logf("tx_ns %d, rx_ns %d, in_tx_ns %d, %d of %d unstamped", row.Regs.TxNs, row.Regs.RxNs, row.Regs.InTxNs, row.Regs.TxUnstamped, row.Regs.TxPackets)
}

// More completions than the queue holds: the application is told, and the queue pair
// is of no use any more.
func TestOverrun(t *testing.T) {
	hosts := engines.New(t, topo.Spec{Hosts: topo.Hosts(1)})
	hosts[0].MustOpen(t, nic.Options{})
	a, b := newSide(t, hosts[0], verbs.RC, 4096), newSide(t, hosts[0], verbs.RC, 4096)
	small, err := a.dev.CreateCQ(2)
	if err != nil {
		t.Fatal(err)
	}
	x, err := a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: small, RecvCQ: a.cq})
	if err != nil {
		t.Fatal(err)
	}
	addr := hosts[0].IPv4()
	if err := engines.Connect(x, b.qp, addr, addr, rocev2.PMTU1024); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := x.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: a.sge(0, 8), RemoteAddr: b.va, RKey: b.key}); err != nil {
			t.Fatal(err)
		}
	}
	var seen []verbs.EventType
	for len(seen) < 2 {
		select {
		case e := <-a.dev.Events():
			seen = append(seen, e.Type)
		case <-time.After(testkit.Patience):
			t.Fatalf("events %v", seen)
		}
	}
	if fmt.Sprint(seen) != fmt.Sprint([]verbs.EventType{verbs.EventCQError, verbs.EventQPFatal}) || x.State() != verbs.StateErr {
		t.Errorf("events %v, state %s", seen, x.State())
	}
	if _, err := a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: a.cq, RecvCQ: small}); err == nil || !strings.Contains(err.Error(), "make another") {
		t.Errorf("another queue pair on it: %v", err)
	}
}
