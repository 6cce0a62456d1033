// SPDX-License-Identifier: Apache-2.0

package faults

// Switch is the switch of a topology. It loses RoCEv2 packets at random, each kind
// of packet with a probability of its own.

import (
	"errors"
	"fmt"
	"math"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Switch is a topology's switch with an XDP program at each port that loses what hosts
// send. It looks at IPv4 without options and at IPv6 without extension headers; all else passes.
type Switch struct {
	share, count *ebpf.Map // probability in 1/2^32, and packets lost, by opcode
	closers      []func() error
}

const opcodes = 256

// Port is an interface by whose XDP hook packets come into a switch.
type Port struct {
	Do    func(func() error) error // function that runs another one in the network namespace of the port
	Index int
}

// NewLoss attaches to all ports. Nothing is lost before Lose.
func NewLoss(top *topo.Topology) (*Switch, error) {
	sw := top.Switch()
	var ports []Port
	for _, h := range top.Hosts() {
		port, err := sw.Netlink().LinkByName(h.Port().Name())
		if err != nil {
			return nil, fmt.Errorf("loss: %w", err)
		}
		ports = append(ports, Port{sw.Do, port.Attrs().Index})
	}
	return On(ports...)
}

// On is NewLoss for ports of another switch.
func On(ports ...Port) (_ *Switch, err error) {
	s := &Switch{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("loss: %w", err), s.Close())
		}
	}()
	for _, m := range []struct {
		to   **ebpf.Map
		name string
		size uint32
	}{{&s.share, "share", 4}, {&s.count, "lost", 8}} {
		*m.to, err = ebpf.NewMap(&ebpf.MapSpec{Name: m.name, Type: ebpf.Array, KeySize: 4, ValueSize: m.size, MaxEntries: opcodes})
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, (*m.to).Close)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "lose", Type: ebpf.XDP, License: "GPL", Flags: unix.BPF_F_XDP_HAS_FRAGS, Instructions: s.program(),
	})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, prog.Close)
	for _, p := range ports {
		err = p.Do(func() error {
			l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: p.Index, Flags: link.XDPDriverMode})
			if err == nil {
				s.closers = append(s.closers, l.Close)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Places in a frame, from the end of the IP header on, and in struct xdp_md.
const (
	etherLen, atType   = 14, 12
	ip4Len, ip6Len     = 20, 40
	atProto4, atProto6 = etherLen + 9, etherLen + 6
	atPort, atOpcode   = etherLen + 2, etherLen + 8
	mdData, mdEnd      = 0, 4
)

// program is, for a RoCEv2 packet,
//
//	if (bpf_get_prandom_u32() < share[opcode]) { lost[opcode]++; return XDP_DROP; }
//	return XDP_PASS;
func (s *Switch) program() asm.Instructions {
	network := func(v uint16) int32 { return int32(v<<8 | v>>8) } // as a little-endian host loads it
	p := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, mdData, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, mdEnd, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, atOpcode+ip4Len+1),
		asm.JGT.Reg(asm.R4, asm.R3, "pass"),
		asm.LoadMem(asm.R4, asm.R2, atType, asm.Half),
		asm.JEq.Imm(asm.R4, network(unix.ETH_P_IPV6), "ip6"),
		asm.JNE.Imm(asm.R4, network(unix.ETH_P_IP), "pass"),
	}
	p = append(p, opcodeOf(atProto4, ip4Len, network(rocev2.UDPPort))...)
	p = append(p, asm.Ja.Label("found"))
	six := opcodeOf(atProto6, ip6Len, network(rocev2.UDPPort))
	p = append(p,
		asm.Mov.Reg(asm.R4, asm.R2).WithSymbol("ip6"),
		asm.Add.Imm(asm.R4, atOpcode+ip6Len+1),
		asm.JGT.Reg(asm.R4, asm.R3, "pass"))
	p = append(p, six...)
	return append(p, s.lose()...)
}

// opcodeOf loads the opcode of a RoCEv2 packet into R4, or goes on at "pass".
func opcodeOf(atProto, ipLen int16, port int32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R4, asm.R2, atProto, asm.Byte),
		asm.JNE.Imm(asm.R4, unix.IPPROTO_UDP, "pass"),
		asm.LoadMem(asm.R4, asm.R2, atPort+ipLen, asm.Half),
		asm.JNE.Imm(asm.R4, port, "pass"),
		asm.LoadMem(asm.R4, asm.R2, atOpcode+ipLen, asm.Byte),
	}
}

// lose decides about a packet whose opcode is in R4.
func (s *Switch) lose() asm.Instructions {
	const pass, drop = 2, 1
	return asm.Instructions{
		asm.StoreMem(asm.RFP, -4, asm.R4, asm.Word).WithSymbol("found"),
		asm.FnGetPrandomU32.Call(),
		asm.Mov.Reg(asm.R6, asm.R0),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, s.share.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.Word),
		asm.JGE.Reg(asm.R6, asm.R1, "pass"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, s.count.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, drop),
		asm.Return(),
		asm.Mov.Imm(asm.R0, pass).WithSymbol("pass"),
		asm.Return(),
	}
}

// Lose sets the share of the packets with these opcodes that is lost, 0 to 1; of all
// packets if none is named.
func (s *Switch) Lose(share float64, of ...rocev2.Opcode) error {
	v := uint32(min(max(share, 0)*(1<<32), math.MaxUint32))
	for _, op := range orAll(of) {
		if err := s.share.Put(uint32(op), v); err != nil {
			return fmt.Errorf("loss: %w", err)
		}
	}
	return nil
}

// Lost is how many packets with these opcodes were lost so far; of all if none is named.
func (s *Switch) Lost(of ...rocev2.Opcode) (sum uint64, err error) {
	for _, op := range orAll(of) {
		var n uint64
		if err := s.count.Lookup(uint32(op), &n); err != nil {
			return 0, fmt.Errorf("loss: %w", err)
		}
		sum += n
	}
	return sum, nil
}

// orAll are the opcodes, or all there are if none is named.
func orAll(of []rocev2.Opcode) []rocev2.Opcode {
	if len(of) == 0 {
		for op := range opcodes {
			of = append(of, rocev2.Opcode(op))
		}
	}
	return of
}

// Close detaches from the ports.
func (s *Switch) Close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	s.closers = nil
	return errors.Join(errs...)
}
