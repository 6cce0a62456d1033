// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// What XDP and TC programs return (uapi/linux/bpf.h, uapi/linux/pkt_cls.h).
const (
	xdpDrop     = 1
	xdpPass     = 2
	xdpTX       = 3
	xdpRedirect = 4

	tcNext = 0xffffffff // -1: continue with the next program
	tcDrop = 2
)

// A lab is the data plane of one host, loaded into the kernel and attached to
// nothing: packets go through it by BPF_PROG_TEST_RUN. Its clock stands still
// until at moves it, so every stamp and register has an exact value.
type lab struct {
	t      testing.TB
	objs   bpf.Objects
	rodata *ebpf.Map
	consts []byte
	offset map[string]uint32 // offsets of the constants in rodata
	events *ringbuf.Reader
	seen   map[string]uint64

	withoutToken atomic.Uint64 // packets with feedback that egress has dropped: a destination may have no token
}

// Addresses of the host and of its peers.
var (
	us4   = netip.MustParseAddr("10.0.0.1")
	peer4 = netip.MustParseAddr("10.0.0.4")
	us6   = netip.MustParseAddr("fd00::1")
	peer6 = netip.MustParseAddr("fd00::4")

	usMAC   = [6]byte{2, 0, 0, 0, 0, 1}
	peerMAC = [6]byte{2, 0, 0, 0, 0, 4}
)

const labMTU = 1500

// The key of the lab's host. The token that a peer of it gives is the one that it gets:
// stamped need not know which way a packet goes.
var labSecret = bpf.Secret{0x0706050403020100, 0x0f0e0d0c0b0a0908}

func tokenOf(peer netip.Addr) uint64 { return labSecret.Token(bpf.KeyOf(peer)) }

func nonceOf(peer netip.Addr) uint64 { return labSecret.Nonce(bpf.KeyOf(peer)) }

// newLab loads the data plane. change may alter the specification first (sizes
// of maps, constants).
func newLab(t testing.TB, change ...func(*ebpf.CollectionSpec)) *lab {
	t.Helper()
	requireRoot(t)
	spec, err := bpf.LoadSoftroce()
	if err != nil {
		t.Fatal(err)
	}
	// Constants that are not frozen are no constants to the verifier, and the
	// clock of the lab can be moved while the programs are loaded.
	ro := spec.Maps[".rodata"]
	ro.Name = "constants" // the library freezes what is called .rodata
	ro.Flags &^= unix.BPF_F_RDONLY_PROG
	for _, f := range change {
		f(spec)
	}
	l := &lab{t: t, offset: map[string]uint32{}, seen: map[string]uint64{}}
	l.consts = slices.Clone(ro.Contents[0].Value.([]byte))
	for name, v := range spec.Variables {
		l.offset[name] = v.Offset
	}
	var rest struct {
		Rodata *ebpf.Map `ebpf:".rodata"`
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(coll.Close)
	if err := errors.Join(coll.Assign(&l.objs), coll.Assign(&rest)); err != nil {
		t.Fatal(err)
	}
	l.rodata = rest.Rodata
	t.Cleanup(func() { l.rodata.Close(); l.objs.Close() })
	if l.events, err = ringbuf.NewReader(l.objs.Events); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.events.Close() })
	t.Cleanup(func() { l.counters() })

	l.constant("clock_fixed", 1)
	l.at(1_000_000_000)
	l.config(func(c *bpf.Config) {
		c.AbiVersion, c.Mtu, c.Node, c.HelloRate = bpf.ABIVersion, labMTU, 1, 1000
		c.Caps, c.LinkRateBps, c.Mac = uint32(bpf.CapStamp), 10e9, usMAC
		c.Secret = labSecret
	})
	return l
}

func requireRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("needs root: loads BPF programs")
	}
	require.Skip(t, "needs root: loads BPF programs")
}

// with hands the lab to a subtest, with an empty table and queue.
func (l *lab) with(t *testing.T) *lab {
	t.Helper()
	l.t = t
	var k bpf.DestKey
	var v bpf.DestRegs
	var keys []bpf.DestKey
	for it := l.objs.DestTable.Iterate(); it.Next(&k, &v); {
		keys = append(keys, k)
	}
	for _, k := range keys {
		if err := l.objs.DestTable.Delete(k); err != nil {
			t.Fatal(err)
		}
	}
	for l.objs.Active.LookupAndDelete(nil, &k) == nil {
	}
	for ok := true; ok; _, ok = l.event() {
	}
	l.counters()
	return l
}

// constant changes a `const volatile` of the programs.
func (l *lab) constant(name string, value uint8) {
	l.t.Helper()
	l.consts[l.off(name)] = value
	l.putConsts()
}

// at moves the clock, in nanoseconds.
func (l *lab) at(ns uint64) {
	l.t.Helper()
	binary.NativeEndian.PutUint64(l.consts[l.off("clock_fixed_ns"):], ns)
	l.putConsts()
}

func (l *lab) off(name string) uint32 {
	off, ok := l.offset[name]
	if !ok {
		l.t.Fatalf("no constant %s", name)
	}
	return off
}

func (l *lab) putConsts() {
	l.t.Helper()
	if err := l.rodata.Put(uint32(0), l.consts); err != nil {
		l.t.Fatal(err)
	}
}

// config changes the configuration that the agent would write.
func (l *lab) config(change func(*bpf.Config)) {
	l.t.Helper()
	var c bpf.Config
	if err := l.objs.Config.Lookup(uint32(0), &c); err != nil {
		l.t.Fatal(err)
	}
	change(&c)
	if err := l.objs.Config.Put(uint32(0), &c); err != nil {
		l.t.Fatal(err)
	}
}

// know puts a peer into the table, as the agent does for the nodes of the node
// file.
func (l *lab) know(peer netip.Addr, change ...func(*bpf.DestRegs)) {
	l.t.Helper()
	d := bpf.DestRegs{WinTxNs: bpf.NoSample, WinRxNs: bpf.NoSample, WinRttNs: bpf.NoSample}
	d.RxToken, d.TxToken = tokenOf(peer), tokenOf(peer)
	for _, f := range change {
		f(&d)
	}
	if err := l.objs.DestTable.Put(bpf.KeyOf(peer), &d); err != nil {
		l.t.Fatal(err)
	}
}

// own makes the list of this host's addresses. The first two are those without a lookup.
func (l *lab) own(first4, first6 netip.Addr, others ...netip.Addr) {
	l.t.Helper()
	for i, a := range append([]netip.Addr{first4, first6}, others...) {
		if err := l.objs.OwnAddresses.Put(bpf.KeyOf(a), uint32(i)+uint32(bpf.OwnFirst4)); err != nil {
			l.t.Fatal(err)
		}
	}
	w := bpf.OwnWords{Known: 1, First4: uint32(bpf.OwnWord(first4)), First6: bpf.OwnHalves(first6)}
	if err := l.objs.OwnState.Put(uint32(0), &w); err != nil {
		l.t.Fatal(err)
	}
}

// aware makes a peer one that understands the stamp option.
func aware(d *bpf.DestRegs) { d.Caps |= bpf.CapStamp }

// regs reads a peer's entry.
func (l *lab) regs(peer netip.Addr) bpf.DestRegs {
	l.t.Helper()
	var d bpf.DestRegs
	if err := l.objs.DestTable.Lookup(bpf.KeyOf(peer), &d); err != nil {
		l.t.Fatalf("%s: %v", peer, err)
	}
	return d
}

func (l *lab) entries() int {
	n := 0
	var k bpf.DestKey
	var v bpf.DestRegs
	for it := l.objs.DestTable.Iterate(); it.Next(&k, &v); {
		n++
	}
	return n
}

// in pushes a frame through ingress: what came out, and the verdict.
func (l *lab) in(frame []byte) (uint32, []byte) {
	l.t.Helper()
	return l.run(l.objs.SoftroceIngress, &ebpf.RunOptions{Data: frame})
}

// out pushes a frame through egress.
func (l *lab) out(frame []byte) (uint32, []byte) {
	l.t.Helper()
	return l.run(l.objs.SoftroceEgress, &ebpf.RunOptions{Data: frame})
}

func (l *lab) run(p *ebpf.Program, o *ebpf.RunOptions) (uint32, []byte) {
	l.t.Helper()
	o.DataOut = make([]byte, len(o.Data)+256)
	verdict, err := p.Run(o)
	if err != nil {
		l.t.Fatal(err)
	}
	return verdict, o.DataOut
}

// counters returns what was counted since the last call, by name.
func (l *lab) counters() map[string]uint64 {
	l.t.Helper()
	got := map[string]uint64{}
	for _, r := range bpf.Reasons() {
		var perCPU []uint64
		if err := l.objs.Stats.Lookup(r.Number, &perCPU); err != nil {
			l.t.Fatal(err)
		}
		sum := uint64(0)
		for _, n := range perCPU {
			sum += n
		}
		if n := sum - l.seen[r.Name]; n != 0 {
			got[r.Name] = n
			reached[r.Name] = true
		}
		l.seen[r.Name] = sum
	}
	return got
}

// wantCounters compares what was counted since the last call.
func (l *lab) wantCounters(names ...string) {
	l.t.Helper()
	want := map[string]uint64{}
	for _, n := range names {
		want[n]++
	}
	if got := l.counters(); !maps.Equal(got, want) {
		l.t.Errorf("counted %v, want %v", got, want)
	}
}

// event returns the next event for the agent, or false: there is none.
func (l *lab) event() (bpf.Event, bool) {
	l.t.Helper()
	if l.events.AvailableBytes() == 0 {
		return bpf.Event{}, false
	}
	rec, err := l.events.Read()
	if err != nil {
		l.t.Fatal(err)
	}
	e, ok := bpf.EventOf(rec.RawSample)
	if !ok {
		l.t.Fatalf("event of %d bytes", len(rec.RawSample))
	}
	return e, true
}

func (l *lab) wantEvent(typ uint32, peer netip.Addr) bpf.Event {
	l.t.Helper()
	e, ok := l.event()
	if !ok || e.Type != typ || bpf.AddrOf(e.Peer) != peer {
		l.t.Errorf("event %+v (%v), want type %d of %s", e, ok, typ, peer)
	}
	return e
}

func (l *lab) wantNoEvent() {
	l.t.Helper()
	if e, ok := l.event(); ok {
		l.t.Errorf("event %+v, want none", e)
	}
}

// oneCPU keeps the calling test on one processor, for what is kept per CPU.
func oneCPU(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	var old, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		t.Fatal(err)
	}
	for cpu := range len(old) * 64 {
		if old.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.SchedSetaffinity(0, &old); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	})
}

func clockTAI(t testing.TB) uint64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_TAI, &ts); err != nil {
		t.Fatal(err)
	}
	return uint64(ts.Nano())
}

// The reasons that any test made the data plane count.
var reached = map[string]bool{}

// The text of a reason that no test reaches is unchecked.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := rlimit.RemoveMemlock(); err != nil && os.Geteuid() == 0 {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	filtered := flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.skip").Value.String() != "" || testing.Short()
	if code == 0 && !filtered && os.Geteuid() == 0 && flag.Lookup("test.list").Value.String() == "" {
		for _, r := range bpf.Reasons() {
			if !reached[r.Name] && unreachable[r.Name] == "" {
				fmt.Printf("FAIL: no test counts %s (%s)\n", r.Name, r.Text)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// Reasons that BPF_PROG_TEST_RUN cannot bring about, with why.
var unreachable = map[string]string{
	"tx_foreign":      "a test run gives each packet a socket of the kernel; TestUnprivilegedSender of testenv/e2e counts it",
	"rx_strip_failed": "bpf_xdp_adjust_tail refuses to shorten only frames of drivers without that support",
	"tx_stamp_failed": "bpf_skb_change_tail refuses encapsulated packets, and those over 16 KiB, which a test run cannot make",
}
