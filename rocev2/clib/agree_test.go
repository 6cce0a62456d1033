// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// program is a C program that prints bytes by name, with what Go has for each name.
type program struct {
	c    strings.Builder
	want map[string][]byte
}

func (p *program) line(format string, x ...any) { fmt.Fprintf(&p.c, "\t"+format+"\n", x...) }

// show has the program print n bytes at a C pointer. Go has want for them.
func (p *program) show(name, pointer string, want []byte) {
	p.line("show(%q, %s, %d);", name, pointer, len(want))
	p.want[name] = want
}

// run compiles the program and returns what it has printed.
func (p *program) run(t *testing.T) map[string][]byte {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Fatal("this test needs gcc: .ci/install test installs it")
	}
	dir := t.TempDir()
	src, bin := filepath.Join(dir, "agree.c"), filepath.Join(dir, "agree")
	testkit.Must(t, os.WriteFile(src, []byte(programTop+p.c.String()+"\treturn 0;\n}\n"), 0o644))
	out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Isrc", "-o", bin, src).CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	out, err = exec.Command(bin).Output()
	testkit.Must(t, err)
	got := map[string][]byte{}
	for l := range strings.Lines(string(out)) {
		name, text, _ := strings.Cut(strings.TrimSpace(l), " ")
		got[name] = testkit.Unhex(t, text)
	}
	return got
}

const programTop = `#include <stdio.h>
#include "softroce_proto.h"

static void show(const char *name, const void *p, size_t n)
{
	printf("%s ", name);
	for (size_t i = 0; i < n; i++)
		printf("%02x", ((const unsigned char *)p)[i]);
	printf("\n");
}

int main(void)
{
`

// compare compares what the program has printed with what Go has.
func (p *program) compare(t *testing.T, got map[string][]byte) {
	t.Helper()
	for name, want := range p.want {
		if !bytes.Equal(got[name], want) {
			t.Errorf("%s in C:\n%s\nin Go:\n%s", name, hex.EncodeToString(got[name]), hex.EncodeToString(want))
		}
	}
}

// pattern is a value for the i-th field, with different bytes.
func pattern(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 }

// messages are all structures that messages begin with.
func messages() (all []any) {
	all = []any{new(proto.Header), new(proto.Event), new(proto.CMEvent)}
	for t := proto.Type(1); t < proto.TBatch; t++ {
		request, reply, _ := proto.Bodies(t)
		for _, b := range []any{request, reply} {
			if b != nil && !slices.ContainsFunc(all, func(x any) bool { return reflect.TypeOf(x) == reflect.TypeOf(b) }) {
				all = append(all, b)
			}
		}
	}
	return all
}

// Structures filled by C are the bytes that Go encodes, and Go decodes them to what C has filled in. Of arrays that
// are the first and the last element.
func TestMessagesAgree(t *testing.T) {
	p := &program{want: map[string][]byte{}}
	all := messages()
	for i, m := range all {
		v := reflect.ValueOf(m).Elem()
		name := snake(v.Type().Name())
		p.line("struct softroce_%s m%d;\n\tmemset(&m%d, 0, sizeof(m%d));", name, i, i, i)
		n := i * 100
		fill(p, fmt.Sprintf("m%d", i), v, &n)
		body := testkit.Must1(binary.Append(nil, binary.LittleEndian, m))(t)
		p.show(name, fmt.Sprintf("&m%d", i), body)
		p.line("show(%q, &(uint32_t){sizeof(m%d)}, 4);", "size:"+name, i)
		p.want["size:"+name] = binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	}
	got := p.run(t)
	p.compare(t, got)
	for _, m := range all {
		back := reflect.New(reflect.TypeOf(m).Elem())
		name := snake(back.Elem().Type().Name())
		if err := proto.Decode(got[name], back.Interface()); err != nil || !reflect.DeepEqual(back.Interface(), m) {
			t.Errorf("%s of C is decoded as %+v, %v", name, back.Elem(), err)
		}
	}
}

// fill sets the fields of a Go structure, and has the program set those of its own with the same values.
func fill(p *program, path string, v reflect.Value, n *int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name != "_" {
				fill(p, path+"."+snake(f.Name), v.Field(i), n)
			}
		}
	case reflect.Array:
		for _, i := range []int{0, v.Len() - 1} {
			fill(p, fmt.Sprintf("%s[%d]", path, i), v.Index(i), n)
		}
	default:
		*n++
		x := pattern(*n) & (1<<v.Type().Bits() - 1)
		if v.CanInt() {
			v.SetInt(int64(x<<(64-v.Type().Bits())) >> (64 - v.Type().Bits()))
		} else {
			v.SetUint(x)
		}
		p.line("%s = (%s)%#xull;", path, v.Kind().String()+"_t", x)
	}
}

// Entries whose fields C has set are those of Go, over zeros and over ones, and C reads the fields that Go has set.
func TestEntriesAgree(t *testing.T) {
	p := &program{want: map[string][]byte{}}
	p.line("unsigned char entry[SOFTROCE_WQE_BYTES];\n\tuint64_t value;")
	for _, l := range layouts {
		for _, before := range []byte{0, 0xff} {
			name := fmt.Sprintf("%s:%#x", l.name, before)
			entry := bytes.Repeat([]byte{before}, wqe.WqeBytes)
			p.line("memset(entry, %d, sizeof(entry));", before)
			for i, f := range fieldsOf(l.typ) {
				setField(entry, l.typ, f.name, pattern(i+1))
				p.line("softroce_%s_set_%s(entry, %#xull);", l.name, snake(f.name), pattern(i+1))
			}
			p.show(name, "entry", entry)
			for i, f := range fieldsOf(l.typ) {
				p.line("value = softroce_%s_%s(entry);", l.name, snake(f.name))
				low := pattern(i+1) & (^uint64(0) >> (64 - f.bits))
				p.show(name+":"+f.name, "&value", binary.LittleEndian.AppendUint64(nil, low))
			}
		}
	}
	p.compare(t, p.run(t))
}

// A work request and a receive that C has written are those that the server decodes, and a completion of the server has the
// bit owner where C reads it.
func TestWorkRequestsOfC(t *testing.T) {
	p := &program{want: map[string][]byte{}}
	p.c.WriteString(`	unsigned char wr[SOFTROCE_WQE_BYTES + SOFTROCE_SGE_BYTES] = {0}, recv[SOFTROCE_WQE_RECV_BYTES + SOFTROCE_SGE_BYTES] = {0};
	softroce_wqe_set_opcode(wr, SOFTROCE_OP_WRITE_IMM);
	softroce_wqe_set_signaled(wr, 1);
	softroce_wqe_set_count(wr, 1);
	softroce_wqe_set_immediate(wr, 0x11223344);
	softroce_wqe_set_wr_id(wr, 77);
	softroce_wqe_rdma_set_remote_addr(wr, 0x7f0011223344);
	softroce_wqe_rdma_set_rkey(wr, 0x99);
	softroce_sge_set_addr(wr + SOFTROCE_WQE_BYTES, 0x7f0000001000);
	softroce_sge_set_length(wr + SOFTROCE_WQE_BYTES, 4096);
	softroce_sge_set_lkey(wr + SOFTROCE_WQE_BYTES, 0x55);
	softroce_wqe_recv_set_wr_id(recv, 78);
	softroce_wqe_recv_set_count(recv, 1);
	memcpy(recv + SOFTROCE_WQE_RECV_BYTES, wr + SOFTROCE_WQE_BYTES, SOFTROCE_SGE_BYTES);
`)
	sgl := []verbs.SGE{{Addr: 0x7f0000001000, Len: 4096, LKey: 0x55}}
	send := make([]byte, wqe.SendBytes(0, 1))
	testkit.Must(t, wqe.EncodeSend(send, verbs.RC, &verbs.SendWR{
		ID: 77, Op: verbs.OpWriteImm, Flags: verbs.Signaled, Imm: 0x11223344, RemoteAddr: 0x7f0011223344, RKey: 0x99, SGL: sgl,
	}, 0))
	p.show("send", "wr", send)
	recv := make([]byte, wqe.RecvBytes(1))
	testkit.Must(t, wqe.EncodeRecv(recv, &verbs.RecvWR{ID: 78, SGL: sgl}))
	p.show("recv", "recv", recv)
	var cqe [wqe.CqeBytes]byte
	wqe.EncodeCompletion(cqe[:], &verbs.Completion{WRID: 77, QPN: 5, Op: verbs.OpWriteImm})
	wqe.Cqe(cqe[:]).SetOwner(true)
	p.line("static const unsigned char cqe[SOFTROCE_CQE_BYTES] = {%s};", strings.Trim(strings.ReplaceAll(fmt.Sprint(cqe), " ", ","), "[]"))
	p.line("uint64_t owner;\n\tmemcpy(&owner, cqe + SOFTROCE_CQE_OWNER_AT, 8);")
	p.line("unsigned char read[5] = {(owner & SOFTROCE_CQE_OWNER_MASK) != 0, softroce_cqe_qpn(cqe), softroce_cqe_status(cqe) == SOFTROCE_WC_SUCCESS,")
	p.line("\tsoftroce_cqe_opcode(cqe) == SOFTROCE_OP_WRITE_IMM, softroce_cqe_wr_id(cqe)};")
	p.show("completion", "read", []byte{1, 5, 1, 1, 77})
	p.compare(t, p.run(t))
}

// The words that C writes to a ring, a doorbell and a status page are those that package ring reads, and the length of
// a ring is the same.
func TestRingsAgree(t *testing.T) {
	p := &program{want: map[string][]byte{}}
	s := ring.Shape{Entries: 8, EntryBytes: 48}
	p.c.WriteString(`	static unsigned char memory[4096], doorbell[SOFTROCE_DOORBELL_BYTES], page[SOFTROCE_STATUS_PAGE_BYTES];
	struct softroce_shape shape = {8, 48};
	uint64_t size = softroce_ring_bytes(shape), bit = 1ull << 6;
	uint32_t words[] = {3, 2, SOFTROCE_ARMED_ANY, 5, 1};
	size_t at[] = {SOFTROCE_RING_PRODUCER_AT, SOFTROCE_RING_CONSUMER_AT, SOFTROCE_RING_ARMED_AT, SOFTROCE_RING_STATE_AT, SOFTROCE_RING_WATCHED_AT};
	for (int i = 0; i < 5; i++)
		memcpy(memory + at[i], &words[i], 4);
	memset(memory + SOFTROCE_RING_ENTRIES_AT, 0x77, 48);
	memcpy(doorbell + SOFTROCE_DOORBELL_RINGS_AT + 8 * 1, &bit, 8);
	bit = 1ull << 1;
	memcpy(doorbell + SOFTROCE_DOORBELL_GROUPS_AT, &bit, 8);
	memcpy(page + SOFTROCE_STATUS_PAGE_ASLEEP_AT, &bit, 8);
	unsigned char valid[] = {softroce_shape_valid(shape), softroce_shape_valid((struct softroce_shape){7, 48}),
		softroce_shape_valid((struct softroce_shape){8, 40}), softroce_shape_valid((struct softroce_shape){SOFTROCE_RING_MAX_ENTRIES * 2, 48}),
		softroce_shape_valid((struct softroce_shape){0, 48}), softroce_shape_valid((struct softroce_shape){8, SOFTROCE_RING_MAX_ENTRY_BYTES + 16})};
`)
	p.show("size", "&size", binary.LittleEndian.AppendUint64(nil, uint64(s.Bytes())))
	p.show("valid", "valid", []byte{1, 0, 0, 0, 0, 0})
	p.line("show(%q, memory, sizeof(memory));", "memory")
	p.line("show(%q, doorbell, sizeof(doorbell));", "doorbell")
	p.line("show(%q, page, sizeof(page));", "page")
	got := p.run(t)
	p.compare(t, got)

	r := testkit.Must1(ring.Open(aligned(got["memory"]), s))(t)
	c := ring.NewConsumer(r)
	n := testkit.Must1(c.Available())(t)
	entry := make([]byte, 48)
	c.Peek(entry)
	words := []uint32{n, r.Freed(), r.Armed().Load(), r.State().Load(), r.Watched().Load()}
	if !slices.Equal(words, []uint32{3, 2, ring.ArmedAny, 5, 1}) || !bytes.Equal(entry, bytes.Repeat([]byte{0x77}, 48)) {
		t.Errorf("the words are %d, the first entry % x", words, entry)
	}
	var rung []uint32
	testkit.Must1(ring.OpenDoorbell(aligned(got["doorbell"])))(t).Take(nil, func(i uint32) { rung = append(rung, i) })
	if !slices.Equal(rung, []uint32{64 + 6}) {
		t.Errorf("the doorbell names rings %d", rung)
	}
	page := testkit.Must1(ring.OpenStatusPage(aligned(got["page"])))(t)
	if page.Sleeps(63) || !page.Sleeps(64) || page.Sleeps(128) || page.Ended().Load() != 0 {
		t.Errorf("asleep %#x, ended %d", page.Asleep().Load(), page.Ended().Load())
	}
}

// aligned copies memory to the start of a cache line, as in a mapping.
func aligned(b []byte) []byte {
	memory := make([]byte, len(b)+64)
	for i := range 64 {
		if _, err := ring.OpenStatusPage(memory[i:]); err == nil {
			memory = memory[i:]
			break
		}
	}
	copy(memory, b)
	return memory[:len(b)]
}
