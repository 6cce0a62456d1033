// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"bufio"
	"fmt"
	"io"
	"unsafe"

	"github.com/softroce/softroce-xdp/bpf"
)

// Words of a record of a hex file.
const (
	HexEventWords  = 8
	HexRecordWords = HexEventWords + int(unsafe.Sizeof(bpf.DestRegs{})/8)
)

// Bits of word 0 of an event in a hex file. Bits 8 to 15 are the syndrome, 16 to 23 the flags
// of the stamp.
const (
	hexEvaluate = 1 << iota
	hexFeedback
	hexCE
)

// WriteHex writes a file for $readmemh: words of 64 bits in hexadecimal, one per line.
//
// The first words are the parameters of the policy (block fourcase). A record follows for the
// start and for each event: HexEventWords of the event, and the registers that it leaves in the
// order of their addresses. The start is a record whose word 0 is the number of events.
//
// The words of an event are: kind, syndrome and flags; at; bytes; token; t1; echo_t1; echo_t2;
// credit in bits 0 to 31 and credit_seq in bits 32 to 47.
func (f *File) WriteHex(to io.Writer) error {
	w := bufio.NewWriter(to)
	line := func(v uint64) { fmt.Fprintf(w, "%016x\n", v) }
	for _, v := range paramWordsOf(&f.Params) {
		line(v)
	}
	line(uint64(len(f.Events)))
	for range HexEventWords - 1 {
		line(0)
	}
	first := f.First()
	for _, v := range bpf.WordsOf(&first) {
		line(v)
	}
	for i := range f.Events {
		for _, v := range f.Events[i].hex() {
			line(v)
		}
		for _, v := range bpf.WordsOf(&f.Want[i]) {
			line(v)
		}
	}
	return w.Flush()
}

func (e *Event) hex() [HexEventWords]uint64 {
	if e.Evaluate {
		return [HexEventWords]uint64{hexEvaluate, e.At}
	}
	p, s := &e.Packet, &e.Packet.Stamp
	kind := uint64(p.Syndrome)<<8 | uint64(s.Flags)<<16
	if p.Feedback {
		kind |= hexFeedback
	}
	if p.CE {
		kind |= hexCE
	}
	const mask48 = 1<<48 - 1
	return [HexEventWords]uint64{kind, e.At, p.Bytes, s.Token, s.T1 & mask48, s.EchoT1 & mask48, s.EchoT2 & mask48,
		uint64(s.Credit) | uint64(s.CreditSeq)<<32}
}
