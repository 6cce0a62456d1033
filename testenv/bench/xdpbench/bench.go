// SPDX-License-Identifier: Apache-2.0

// Package xdpbench measures the CPU time per packet of the data plane's programs, compared with
// an empty program in the same run. bench.bpf.c describes how one packet is repeated.
package xdpbench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Wextra -Wno-unused-parameter -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu -fdebug-prefix-map=../../../=" -target bpfel -type template Bench bench.bpf.c

// Limits in nanoseconds.
var (
	mostForeign = compare.AtMost(12, "%.0f") // a packet that is not RoCEv2
	mostStamped = compare.AtMost(75, "%.0f") // data whose option is stripped
)

// Destinations is how many of them the random rows use.
const Destinations = 60_000

// A Row is one kind of packet through one program.
type Row struct {
	Program string  // XDP or TC
	Packet  string  // kind of the packet
	Ns      float64 // nanoseconds a packet over the empty program, a difference of medians

	rounds compare.Series // Differences of each round.
	limit  *compare.Limit // Nil if the row has no target.
}

// one is a program to repeat on a frame.
type one struct {
	prog   *ebpf.Program
	frame  []byte
	repeat int
	want   uint32
}

const (
	repeat    = 10_000
	addresses = 1 << 16 // as many as bench.bpf.c lists
	xdpPass   = 2
	tcNext    = 0xffffffff
)

// Run measures all rows. Other load disturbs the measurement, so every program runs rounds
// times, alternating with the others, and the medians are compared. Both numbers of a
// difference are thus measured under the same conditions.
func Run(ctx context.Context, rounds int) ([]Row, error) {
	undo, err := pin()
	if err != nil {
		return nil, err
	}
	defer undo()
	spec, err := LoadBench()
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	s, err := newScene(spec)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var rows []Row
	for _, group := range []func() ([]pair, error){s.plain, s.stamped, s.many} {
		pairs, err := group()
		if err != nil {
			return nil, err
		}
		runs, err := compare.Turns(ctx, rounds, candidates(pairs)...)
		if err != nil {
			return nil, err
		}
		for i, p := range pairs {
			rows = append(rows, p.measured(runs[i]))
		}
	}
	most := compare.AtMost(mostOfLookup*rows[len(rows)-1].Ns, "%.0f")
	for i := range rows {
		if rows[i].Packet == manyOverOne {
			rows[i].limit = &most
		}
	}
	return append(rows, Row{Program: "-", Packet: "one cache miss of this machine, in as much memory", Ns: cacheMiss(rounds)}), nil
}

// cacheMiss returns the time of one dependent load at a random place of as much memory as the
// table has, in nanoseconds. It is the reference for the rows of many destinations.
func cacheMiss(rounds int) float64 {
	const words = 512 / 8 // of a table element
	mem := make([]uint64, Destinations*words)
	order := rand.New(rand.NewPCG(2, 2)).Perm(Destinations)
	for i, at := range order {
		mem[at*words] = uint64(order[(i+1)%len(order)] * words)
	}
	var ns compare.Series
	at := uint64(0)
	for range rounds {
		start := time.Now()
		for range repeat {
			at = mem[at]
		}
		ns = append(ns, float64(time.Since(start).Nanoseconds())/repeat)
	}
	runtime.KeepAlive(at)
	return ns.Median()
}

// pair is a row with the two programs whose difference it is: prog - base, and
// for XDP harnesses + plus - minus.
type pair struct {
	row         Row
	base, prog  *one
	plus, minus *one
	before      func(base bool) error
}

// times are what each program of a pair has taken, nanoseconds a packet.
type times struct{ base, prog, plus, minus float64 }

func (t times) difference() float64 { return t.prog - t.base + t.plus - t.minus }

// measured returns the row with what it has taken.
func (p *pair) measured(runs compare.Runs[times]) Row {
	r := p.row
	r.rounds = runs.Series(times.difference)
	median := func(f func(times) float64) float64 { return runs.Series(f).Median() }
	r.Ns = times{
		base:  median(func(t times) float64 { return t.base }),
		prog:  median(func(t times) float64 { return t.prog }),
		plus:  median(func(t times) float64 { return t.plus }),
		minus: median(func(t times) float64 { return t.minus }),
	}.difference()
	return r
}

// candidates are pairs that are to be measured.
func candidates(pairs []pair) (all []compare.Candidate[times]) {
	for i := range pairs {
		p := &pairs[i]
		all = append(all, compare.Candidate[times]{Name: p.row.Program + " " + p.row.Packet, Measure: p.run})
	}
	return all
}

// run runs each program of the pair once.
func (p *pair) run(context.Context) (t times, err error) {
	for _, x := range []struct {
		of *one
		to *float64
	}{{p.base, &t.base}, {p.prog, &t.prog}, {p.plus, &t.plus}, {p.minus, &t.minus}} {
		if x.of == nil {
			continue
		}
		if p.before != nil {
			if err := p.before(x.of == p.base); err != nil {
				return t, err
			}
		}
		if *x.to, err = x.of.run(); err != nil {
			return t, err
		}
	}
	return t, nil
}

// run returns nanoseconds a packet.
func (p *one) run() (ns float64, err error) {
	verdict, avg, err := p.prog.Benchmark(p.frame, p.repeat, nil)
	if err != nil {
		return 0, err
	}
	if verdict != p.want {
		return 0, fmt.Errorf("verdict %d, want %d", verdict, p.want)
	}
	return float64(avg.Nanoseconds()), nil
}

// pin keeps the measurement on one processor.
func pin() (undo func(), err error) {
	runtime.LockOSThread()
	var old, cpus unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		return nil, err
	}
	for cpu := range len(old) * 64 {
		if old.IsSet(cpu) {
			cpus.Set(cpu)
		}
	}
	for cpu := range len(old) * 64 { // all but the last: that is the one to stay on
		if cpus.IsSet(cpu) && cpus.Count() > 1 {
			cpus.Clear(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &cpus); err != nil {
		return nil, err
	}
	return func() {
		unix.SchedSetaffinity(0, &old)
		runtime.UnlockOSThread()
	}, nil
}

var (
	host = netip.MustParseAddr("10.0.0.1")
	peer = netip.MustParseAddr("10.0.0.4")
)

// scene is a host with one peer that understands the option and one that does not.
type scene struct{ o objects }

// objects are the programs and maps that the measurement uses. An object file of an earlier
// version has them too.
type objects struct {
	SoftroceIngress    *ebpf.Program `ebpf:"softroce_ingress"`
	SoftroceEgress     *ebpf.Program `ebpf:"softroce_egress"`
	BenchXdpEmpty      *ebpf.Program `ebpf:"bench_xdp_empty"`
	BenchTcEmpty       *ebpf.Program `ebpf:"bench_tc_empty"`
	BenchXdpClock      *ebpf.Program `ebpf:"bench_xdp_clock"`
	BenchXdpShorten    *ebpf.Program `ebpf:"bench_xdp_shorten"`
	BenchXdpRestore    *ebpf.Program `ebpf:"bench_xdp_restore"`
	BenchXdp           *ebpf.Program `ebpf:"bench_xdp"`
	BenchTcRestore     *ebpf.Program `ebpf:"bench_tc_restore"`
	BenchTc            *ebpf.Program `ebpf:"bench_tc"`
	BenchTcEchoRestore *ebpf.Program `ebpf:"bench_tc_echo_restore"`
	BenchTcEcho        *ebpf.Program `ebpf:"bench_tc_echo"`
	BenchXdpMany       *ebpf.Program `ebpf:"bench_xdp_many"`
	BenchTcMany        *ebpf.Program `ebpf:"bench_tc_many"`
	BenchXdpLookup     *ebpf.Program `ebpf:"bench_xdp_lookup"`

	Config    *ebpf.Map `ebpf:"config"`
	DestTable *ebpf.Map `ebpf:"dest_table"`
	Templates *ebpf.Map `ebpf:"templates"`
	Addresses *ebpf.Map `ebpf:"addresses"`
}

// close frees what newScene has loaded.
func (s *scene) close() {
	o := &s.o
	for _, p := range []*ebpf.Program{
		o.SoftroceIngress, o.SoftroceEgress, o.BenchXdpEmpty, o.BenchTcEmpty, o.BenchXdpClock, o.BenchXdpShorten, o.BenchXdpRestore,
		o.BenchXdp, o.BenchTcRestore, o.BenchTc, o.BenchTcEchoRestore, o.BenchTcEcho, o.BenchXdpMany, o.BenchTcMany, o.BenchXdpLookup,
	} {
		p.Close()
	}
	for _, m := range []*ebpf.Map{o.Config, o.DestTable, o.Templates, o.Addresses} {
		m.Close()
	}
}

func newScene(spec *ebpf.CollectionSpec) (*scene, error) {
	s := &scene{}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	defer coll.Close()
	if own := coll.Maps["own_state"]; own != nil { // not in earlier versions
		if err := own.Put(uint32(0), &bpf.OwnWords{Known: 1, First4: uint32(bpf.OwnWord(host))}); err != nil {
			return nil, err
		}
	}
	if err := coll.Assign(&s.o); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	cfg := bpf.Config{AbiVersion: bpf.ABIVersion, Mtu: 1500, Mac: [6]byte{2, 0, 0, 0, 0, 1}, HeartbeatTimeoutNs: 0}
	if err := s.o.Config.Put(uint32(0), &cfg); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// token is in all stamps.
const token = 0x0102030405060708

// know makes the peer an entry, as it is in the middle of a transfer.
func (s *scene) know(a netip.Addr, caps uint16) error {
	d := bpf.DestRegs{Caps: caps, Queued: 1, WinTxNs: bpf.NoSample, WinRxNs: bpf.NoSample, WinRttNs: bpf.NoSample}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	d.RxToken, d.TxToken, d.LastTxNs = token, token, uint64(now.Nano())
	d.RxOwn, d.TxOwn = bpf.OwnFirst4, bpf.OwnWord(host)
	d.PeerT1Ns, d.InTxNs = 1, now.Nano()+1<<46 // an echo that is not too old for hours
	d.EchoGuard = ^(d.PeerT1Ns ^ uint64(d.InTxNs))
	return s.o.DestTable.Put(bpf.KeyOf(a), &d)
}

func frame(d rocev2.Datagram, room int) []byte {
	f := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 4, 8, 0}
	if d.Src == host {
		f[5], f[11] = f[11], f[5]
	}
	f, err := d.AppendTo(f)
	if err != nil {
		panic(err)
	}
	return append(f, make([]byte, room)...)
}

func data(src, dst netip.Addr) rocev2.Datagram {
	return rocev2.Datagram{Src: src, Dst: dst, Opcode: rocev2.RCWriteMiddle, DestQP: 17, PSN: 100, Payload: make([]byte, 1024)}
}

func ack(src, dst netip.Addr) rocev2.Datagram {
	return rocev2.Datagram{Src: src, Dst: dst, Opcode: rocev2.RCAck, DestQP: 17, PSN: 100, Syndrome: 0x1f}
}

// foreign is TCP.
func foreign() []byte {
	f := frame(data(peer, host), 0)
	f[14+9] = 6
	return f
}

// plain are the packets that go through unchanged: the programs themselves, next
// to the empty ones.
func (s *scene) plain() ([]pair, error) {
	if err := s.know(peer, 0); err != nil {
		return nil, err
	}
	xdp := func(f []byte) *one { return &one{prog: s.o.SoftroceIngress, frame: f, repeat: repeat, want: xdpPass} }
	tc := func(f []byte) *one { return &one{prog: s.o.SoftroceEgress, frame: f, repeat: repeat, want: tcNext} }
	xdp0 := func(f []byte) *one { return &one{prog: s.o.BenchXdpEmpty, frame: f, repeat: repeat, want: xdpPass} }
	tc0 := func(f []byte) *one { return &one{prog: s.o.BenchTcEmpty, frame: f, repeat: repeat, want: tcNext} }
	in, out := frame(data(peer, host), 0), frame(data(host, peer), 0)
	return []pair{
		{row: Row{Program: "XDP", Packet: "not RoCEv2", limit: &mostForeign}, base: xdp0(foreign()), prog: xdp(foreign())},
		{row: Row{Program: "TC", Packet: "not RoCEv2", limit: &mostForeign}, base: tc0(foreign()), prog: tc(foreign())},
		{row: Row{Program: "XDP", Packet: "the kernel's clock alone"}, base: xdp0(in), prog: &one{prog: s.o.BenchXdpClock, frame: in, repeat: repeat, want: xdpPass}},
		{row: Row{Program: "XDP", Packet: "RoCEv2 without the option"}, base: xdp0(in), prog: xdp(in)},
		{row: Row{Program: "TC", Packet: "RoCEv2 without the option"}, base: tc0(out), prog: tc(out)},
	}, nil
}

// room is what the frames of programs that only shorten can shrink by, and step
// how much they do in each run.
const (
	room = 2000
	step = 4
)

// harness makes the pair of a harness that restores the packet and of the program
// that only restores. The packet is given without its option.
func (s *scene) harness(tc bool, row Row, d rocev2.Datagram, base, prog *ebpf.Program) (BenchTemplate, pair) {
	plain := frame(d, 0)
	d.Stamp = &rocev2.Stamp{Flags: rocev2.StampT1, Token: token, T1: 1}
	if d.Opcode == rocev2.RCAck {
		d.Stamp = &rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, Token: token, T1: 1, EchoT1: 2, EchoT2: 3}
	}
	full := frame(d, 0)
	t := BenchTemplate{OptOff: uint32(len(plain)), Shorten: rocev2.StampLen, Peer: BenchDestKey{Addr: peer.As16()}}
	for i := range t.Option {
		t.Option[i] = binary.NativeEndian.Uint64(full[len(plain)+8*i:])
	}
	p := pair{
		row:  row,
		prog: &one{prog: prog, frame: full, repeat: repeat, want: xdpPass},
		base: &one{prog: base, frame: full, repeat: repeat, want: xdpPass},
	}
	head := full // restored to: XDP takes the option off, TC puts it on
	if tc {
		head = plain
		p.prog.frame, p.prog.want = plain, tcNext
		p.base.frame, p.base.want, p.base.repeat = slices.Concat(plain, make([]byte, room)), tcNext, room/step-1
	} else {
		long := slices.Concat(full, make([]byte, room))
		p.plus = &one{prog: s.o.BenchXdpShorten, frame: long, repeat: room/step - 1, want: xdpPass}
		p.minus = &one{prog: s.o.BenchXdpEmpty, frame: long, repeat: room/step - 1, want: xdpPass}
	}
	t.IpLen, t.IpCheck = binary.NativeEndian.Uint16(head[16:]), binary.NativeEndian.Uint16(head[24:])
	alone := t
	alone.Shorten = step
	p.before = func(base bool) error {
		if base && tc {
			return s.o.Templates.Put(uint32(1), &alone)
		}
		return s.o.Templates.Put(uint32(0), &t)
	}
	return t, p
}

func (s *scene) stamped() ([]pair, error) {
	if err := s.know(peer, bpf.CapStamp); err != nil {
		return nil, err
	}
	_, dataIn := s.harness(false, Row{Program: "XDP", Packet: "data, option stripped", limit: &mostStamped}, data(peer, host), s.o.BenchXdpRestore, s.o.BenchXdp)
	_, ackIn := s.harness(false, Row{Program: "XDP", Packet: "ACK with echo, stripped"}, ack(peer, host), s.o.BenchXdpRestore, s.o.BenchXdp)
	_, dataOut := s.harness(true, Row{Program: "TC", Packet: "data, option appended"}, data(host, peer), s.o.BenchTcRestore, s.o.BenchTc)
	_, ackOut := s.harness(true, Row{Program: "TC", Packet: "ACK, echo appended"}, ack(host, peer), s.o.BenchTcEchoRestore, s.o.BenchTcEcho)
	return []pair{dataIn, ackIn, dataOut, ackOut}, nil
}

// A packet to or from one of many destinations costs at most mostOfLookup times the kernel's
// lookup alone.
const (
	manyOverOne  = "60 000 destinations at random, over one"
	mostOfLookup = 1.3
)

// many compares packets of one destination with those of 60 000, hit at random.
func (s *scene) many() ([]pair, error) {
	for i := range uint32(Destinations) {
		if err := s.know(destination(i), bpf.CapStamp); err != nil {
			return nil, err
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range uint32(addresses) {
		if err := s.o.Addresses.Put(i, destination(rng.Uint32N(Destinations)).As4()); err != nil {
			return nil, err
		}
	}
	var pairs []pair
	for _, tc := range []bool{false, true} {
		row := Row{Program: "XDP", Packet: manyOverOne}
		d, prog := data(peer, host), s.o.BenchXdpMany
		if tc {
			row.Program, d, prog = "TC", data(host, peer), s.o.BenchTcMany
		}
		t, p := s.harness(tc, row, d, nil, prog)
		p.base, p.plus, p.minus = p.prog.as(prog), nil, nil
		p.before = func(base bool) error {
			t.Mask = addresses - 1
			if base {
				t.Mask = 0
			}
			return s.o.Templates.Put(uint32(0), &t)
		}
		pairs = append(pairs, p)
	}
	// The kernel's part of it: the look-up alone.
	lookup := pairs[0]
	lookup.row = Row{Program: "XDP", Packet: "the same for the kernel's look-up alone"}
	lookup.base, lookup.prog = lookup.base.as(s.o.BenchXdpLookup), lookup.prog.as(s.o.BenchXdpLookup)
	return append(pairs, lookup), nil
}

// as is the same measurement with another program.
func (p *one) as(prog *ebpf.Program) *one {
	c := *p
	c.prog = prog
	return &c
}

func destination(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 10<<24|1<<16+n)))
}
