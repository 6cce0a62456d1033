// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/rocev2"
)

// FormatVersion is the version of vector files.
const FormatVersion = 1

// File is a vector with the registers that each of its events leaves.
type File struct {
	Vector
	Want []bpf.DestRegs // expected registers after each event
}

const fileHead = `# A stream of events for one entry of the destination table (struct dest_regs of
# bpf/lib/abi.h, block dest of docs/card/card-registers.md). docs/card/card-vectors.md has the format.
`

// flagNames are the flags of a stamp, from bit 0.
var flagNames = []string{"t1", "echo", "credit", "ce"}

// Expect replays a vector on the model of the card, and returns it with the registers that the
// model has after each event.
func Expect(v *Vector) *File {
	f := &File{Vector: *v}
	c := NewCard(v)
	for i := range v.Events {
		c.Do(&v.Events[i])
		f.Want = append(f.Want, c.Regs())
	}
	return f
}

// Write writes a vector file.
func (f *File) Write(to io.Writer) error {
	w := bufio.NewWriter(to)
	fmt.Fprint(w, fileHead)
	fmt.Fprintf(w, "softroce-vector %d\nname %s\nabi %d\n", FormatVersion, f.Name, bpf.ABIVersion)
	var zero bpf.DestRegs
	fmt.Fprintf(w, "params %s\n", strings.Join(changes(paramRegisters, bpf.WordsOf(&zero), paramWordsOf(&f.Params)[:]), " "))
	now := f.First()
	fmt.Fprintf(w, "start %s sum=%016x\n", strings.Join(changes(destRegisters, bpf.WordsOf(&zero), bpf.WordsOf(&now)), " "), sum(&now))
	for i := range f.Events {
		before := now
		now = f.Want[i]
		fmt.Fprintf(w, "%s => %s\n", f.Events[i].text(), strings.Join(append(changes(destRegisters, bpf.WordsOf(&before), bpf.WordsOf(&now)),
			fmt.Sprintf("sum=%016x", sum(&now))), " "))
	}
	fmt.Fprintf(w, "end %d\n", len(f.Events))
	return w.Flush()
}

// sum is the FNV-1a checksum, 64 bits, of an entry's bytes in the order of their addresses.
func sum(d *bpf.DestRegs) uint64 {
	h := fnv.New64a()
	for _, w := range bpf.WordsOf(d) {
		var b [8]byte
		for i := range b {
			b[i] = byte(w >> (8 * i))
		}
		h.Write(b[:])
	}
	return h.Sum64()
}

// eventFields are the numbers of a packet by their names in a file.
func eventFields(p *card.Packet) []eventField {
	s := &p.Stamp
	return []eventField{
		{"bytes", 64, func() uint64 { return p.Bytes }, func(v uint64) { p.Bytes = v }},
		{"syndrome", 8, func() uint64 { return uint64(p.Syndrome) }, func(v uint64) { p.Syndrome = uint8(v) }},
		{"token", 64, func() uint64 { return s.Token }, func(v uint64) { s.Token = v }},
		{"t1", 48, func() uint64 { return s.T1 & rocev2.StampTimeMask }, func(v uint64) { s.T1 = v }},
		{"echo_t1", 48, func() uint64 { return s.EchoT1 & rocev2.StampTimeMask }, func(v uint64) { s.EchoT1 = v }},
		{"echo_t2", 48, func() uint64 { return s.EchoT2 & rocev2.StampTimeMask }, func(v uint64) { s.EchoT2 = v }},
		{"credit", 32, func() uint64 { return uint64(s.Credit) }, func(v uint64) { s.Credit = uint32(v) }},
		{"credit_seq", 16, func() uint64 { return uint64(s.CreditSeq) }, func(v uint64) { s.CreditSeq = uint16(v) }},
	}
}

type eventField struct {
	name string
	bits int
	get  func() uint64
	set  func(v uint64)
}

// text is an event without the registers that it leaves.
func (e *Event) text() string {
	if e.Evaluate {
		return fmt.Sprintf("evaluate at=%d", e.At)
	}
	w := []string{"data"}
	if e.Packet.Feedback {
		w[0] = "ack"
	}
	w = append(w, fmt.Sprintf("at=%d", e.At))
	if e.Packet.CE {
		w = append(w, "ce=1")
	}
	var flags []string
	for bit, name := range flagNames {
		if e.Packet.Stamp.Flags>>bit&1 != 0 {
			flags = append(flags, name)
		}
	}
	if len(flags) > 0 {
		w = append(w, "flags="+strings.Join(flags, "+"))
	}
	p := e.Packet
	for _, f := range eventFields(&p) {
		if v := f.get(); v != 0 {
			w = append(w, fmt.Sprintf("%s=%d", f.name, v))
		}
	}
	return strings.Join(w, " ")
}

// String is the text of the file.
func (f *File) String() string {
	var b strings.Builder
	_ = f.Write(&b) // a Builder has no errors
	return b.String()
}
