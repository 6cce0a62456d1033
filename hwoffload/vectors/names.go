// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"fmt"
	"strconv"
	"strings"
	"unsafe"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// register is a register of a block's element, by its name in the definition.
type register struct {
	name   string
	offset uint64 // bytes
	bits   uint
	signed bool
	parts  bool // the register has several fields, so its value is written in hexadecimal
}

// registersOf returns the registers of a block's element in the order of their addresses. An
// element of an array has its number in brackets.
func registersOf(block string) (all []register) {
	for _, b := range regs.Blocks {
		if b.Name != block {
			continue
		}
		for _, r := range b.Registers {
			for j := range r.Count {
				name := r.Name
				if r.Count > 1 {
					name += fmt.Sprintf("[%d]", j)
				}
				all = append(all, register{name, r.Offset + j*r.Stride, r.Bits, r.Fields[0].Signed, !r.Single()})
			}
		}
	}
	return all
}

var (
	destRegisters  = registersOf("dest")
	paramRegisters = registersOf("fourcase")
)

// get returns the value of a register in words of 64 bits.
func (r *register) get(words []uint64) uint64 {
	return words[r.offset/8] >> (r.offset % 8 * 8) & (^uint64(0) >> (64 - r.bits))
}

func (r *register) set(words []uint64, v uint64) {
	shift := r.offset % 8 * 8
	mask := ^uint64(0) >> (64 - r.bits) << shift
	w := &words[r.offset/8]
	*w = *w&^mask | v<<shift&mask
}

// text is a register with its value.
func (r *register) text(words []uint64) string {
	v := r.get(words)
	switch {
	case r.parts:
		return fmt.Sprintf("%s=%#x", r.name, v)
	case r.signed:
		return fmt.Sprintf("%s=%d", r.name, int64(v<<(64-r.bits))>>(64-r.bits))
	}
	return fmt.Sprintf("%s=%d", r.name, v)
}

// parse reads the value of a register.
func (r *register) parse(words []uint64, value string) error {
	v, err := strconv.ParseUint(value, 0, int(r.bits))
	if err != nil && r.signed {
		var s int64
		s, err = strconv.ParseInt(value, 0, int(r.bits))
		v = uint64(s)
	}
	if err != nil {
		return fmt.Errorf("%s is %q: want a number of %d bits", r.name, value, r.bits)
	}
	r.set(words, v)
	return nil
}

// changes are the registers whose values differ from those before.
func changes(list []register, before, now []uint64) (all []string) {
	for i := range list {
		if r := &list[i]; r.get(before) != r.get(now) {
			all = append(all, r.text(now))
		}
	}
	return all
}

// assign sets the registers of NAME=VALUE words.
func assign(list []register, words []uint64, texts []string) error {
	for _, t := range texts {
		name, value, ok := strings.Cut(t, "=")
		if !ok {
			return fmt.Errorf("%q: want NAME=VALUE", t)
		}
		found := false
		for i := range list {
			if r := &list[i]; r.name == name {
				found = true
				if err := r.parse(words, value); err != nil {
					return err
				}
			}
		}
		if !found {
			return fmt.Errorf("no register %q in docs/card/card-registers.md", name)
		}
	}
	return nil
}

// paramWords are the parameters of the policy as 64-bit words.
type paramWords = [unsafe.Sizeof(bpf.PolicyParams{}) / 8]uint64

func paramWordsOf(p *fourcase.Params) *paramWords {
	return (*paramWords)(unsafe.Pointer(bpf.ParamsFrom(p)))
}
