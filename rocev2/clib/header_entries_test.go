// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strings"

	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// layoutOf is a layout of entries, with its name in C.
type layoutOf struct {
	name string
	typ  reflect.Type
}

var layouts = []layoutOf{
	{"wqe", reflect.TypeFor[wqe.Wqe]()}, {"wqe_rdma", reflect.TypeFor[wqe.WqeRdma]()}, {"wqe_ud", reflect.TypeFor[wqe.WqeUd]()},
	{"wqe_bind", reflect.TypeFor[wqe.WqeBind]()}, {"wqe_recv", reflect.TypeFor[wqe.WqeRecv]()}, {"sge", reflect.TypeFor[wqe.Sge]()},
	{"cqe", reflect.TypeFor[wqe.Cqe]()},
}

// layout writes the fields of an entry.
func (w *writer) layout(l layoutOf) {
	_, text, _ := strings.Cut(w.wqe.docs[l.typ.Name()], "as layout "+l.name+". ")
	text, _, _ = strings.Cut(text, "\n\n")
	w.comment(strings.ReplaceAll("Layout "+l.name+": "+text, ". ", ".\n"))
	for _, f := range fieldsOf(l.typ) {
		_, text, _ := strings.Cut(w.wqe.docs[l.typ.Name()+"."+f.name], "returns field "+snake(f.name)+". ")
		for _, place := range []string{" Bits ", " Bit ", " All bits "} {
			if i := strings.LastIndex(text, place); i > 0 {
				text = text[:i]
			}
		}
		w.line(fmt.Sprintf("SOFTROCE_FIELD(%s, %s, %d, %d, %d)", l.name, snake(f.name), f.at, f.lsb, f.bits), text)
	}
	w.raw("\n")
}

// field is a field of an entry, of a word of 8 bytes.
type field struct {
	name          string
	at, lsb, bits int // offset of the word in bytes; lowest bit and number of bits in it
}

// fieldsOf finds the fields of a layout by what its setters change.
func fieldsOf(typ reflect.Type) (all []field) {
	for i := range typ.NumMethod() {
		name, isSetter := strings.CutPrefix(typ.Method(i).Name, "Set")
		if !isSetter {
			continue
		}
		entry := make([]byte, wqe.WqeBytes)
		setField(entry, typ, name, ^uint64(0))
		for at := 0; at < len(entry); at += 8 {
			if x := binary.LittleEndian.Uint64(entry[at:]); x != 0 {
				all = append(all, field{name, at, bits.TrailingZeros64(x), bits.OnesCount64(x)})
			}
		}
	}
	slices.SortFunc(all, func(a, b field) int { return cmp.Or(a.at-b.at, a.lsb-b.lsb) })
	return all
}

// setField calls the setter of a field, with the low bits of a value.
func setField(entry []byte, typ reflect.Type, name string, v uint64) {
	set := reflect.ValueOf(entry).Convert(typ).MethodByName("Set" + name)
	arg := reflect.New(set.Type().In(0)).Elem()
	if arg.Kind() == reflect.Bool {
		arg.SetBool(v&1 != 0)
	} else {
		arg.SetUint(v & (1<<arg.Type().Bits() - 1))
	}
	set.Call([]reflect.Value{arg})
}

const headerEntries = `/*
 * A field of an entry: "bits" bits from bit "lsb" on of the 8 bytes at offset "at", which are little-endian. The layouts
 * wqe_rdma, wqe_ud and wqe_bind are views of an entry that begins with wqe. The elements of a list (sge) or the inline
 * data are behind SOFTROCE_WQE_BYTES of a send entry, and behind SOFTROCE_WQE_RECV_BYTES of a receive. Entries of rings
 * are accessed by another process at the same time: copy a completion once its bit owner is that of the pass, and write
 * a work request before "producer".
 */
#define SOFTROCE_FIELD(layout, field, at, lsb, bits) \
	static inline uint64_t softroce_##layout##_##field(const void *entry) \
	{ \
		return softroce_field(entry, at, lsb, bits); \
	} \
	static inline void softroce_##layout##_set_##field(void *entry, uint64_t value) \
	{ \
		softroce_set_field(entry, at, lsb, bits, value); \
	}

static inline uint64_t softroce_field(const void *entry, size_t at, unsigned lsb, unsigned bits)
{
	uint64_t word;

	memcpy(&word, (const char *)entry + at, sizeof(word));
	return word >> lsb & ~0ull >> (64 - bits);
}

static inline void softroce_set_field(void *entry, size_t at, unsigned lsb, unsigned bits, uint64_t value)
{
	uint64_t word, mask = ~0ull >> (64 - bits) << lsb;

	memcpy(&word, (char *)entry + at, sizeof(word));
	word = (word & ~mask) | (value << lsb & mask);
	memcpy((char *)entry + at, &word, sizeof(word));
}

`
