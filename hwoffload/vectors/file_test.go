// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/vectors"
	"github.com/softroce/softroce-xdp/internal/testkit"
)

// The files in testdata are what the model leaves after each event of the vectors of All.
// UPDATE=1 writes them: read the difference before committing it.
func TestCommitted(t *testing.T) {
	want := map[string]bool{}
	for _, v := range vectors.All() {
		path := filepath.Join("testdata", v.FileName())
		if want[path] {
			t.Errorf("two vectors have the file %s", path)
		}
		want[path] = true
		testkit.Golden(t, path, vectors.Expect(&v).String())
	}
	files, err := filepath.Glob("testdata/*")
	if err != nil || len(files) != len(want) {
		t.Errorf("%d files in testdata, want %d (%v): %v", len(files), len(want), err, files)
	}
}

// What is read from a file is what was written, also for random streams.
func TestRoundTrip(t *testing.T) {
	all := vectors.All()
	for seed := range uint64(20) {
		all = append(all, vectors.Random(seed, 100))
	}
	for _, v := range all {
		f := vectors.Expect(&v)
		got, err := vectors.Read(strings.NewReader(f.String()))
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		if got.First() != f.First() || got.Params != f.Params || got.Name != f.Name {
			t.Errorf("%s: another start", v.Name)
		}
		if diff := cmp.Diff(f.Want, got.Want); diff != "" {
			t.Errorf("%s: registers (-written +read):\n%s", v.Name, diff)
		}
		if got.String() != f.String() {
			t.Errorf("%s: events differ", v.Name)
		}
		if err := got.Replay(vectors.Model); err != nil {
			t.Error(err)
		}
	}
}

// A file that ends at any line, and one with a damaged line, gives an error with the line.
func TestDamagedFile(t *testing.T) {
	v := vectors.All()[0]
	text := vectors.Expect(&v).String()
	lines := strings.SplitAfter(text, "\n")
	for n := range len(lines) - 1 {
		short := strings.Join(lines[:n], "")
		_, err := vectors.Read(strings.NewReader(short))
		if want := fmt.Sprintf("vector file, line %d: the file ends here", n+1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("first %d lines: error %v, want %s", n, err, want)
		}
	}
	for cut := range len(text) - 1 {
		if _, err := vectors.Read(strings.NewReader(text[:cut])); err == nil || !strings.Contains(err.Error(), "vector file, line ") {
			t.Errorf("first %d bytes: error %v", cut, err)
		}
	}
	for _, c := range []struct{ old, new, want string }{
		{"softroce-vector 1", "softroce-vector 2", "line 3: softroce-vector 2: this program knows 1"},
		{"softroce-vector 1", "PK\x03\x04", `line 3: "PK\x03\x04", want "softroce-vector"`},
		{"abi 5", "abi 4", "line 5: abi 4: this program knows 5"},
		{"mode=1", "mode=7", "line 6: mode is 7"},
		{"min_rate_bps", "min_rate", `line 6: no register "min_rate"`},
		{"in_tx_ns=5", "in_tx_ns=6", "line 8: the registers have the checksum"},
		{"in_tx_ns=5", "in_tx_ns=five", `line 8: in_tx_ns is "five"`},
		{"in_tx_ns=5", "node=4294967296", `line 8: node is "4294967296": want a number of 32 bits`},
		{"data at=5", "date at=5", `line 8: event "date": want ack, data or evaluate`},
		{"data at=5", "data", "line 8: the event has no time"},
		{"data at=5", "data at=5 at=6", `line 8: "at=6": want NAME=VALUE, each name once`},
		{"data at=5", "data at=-5", `line 8: at is "-5"`},
		{"flags=t1 ", "flags=t3 ", `line 8: flag "t3"`},
		{"t1=5 ", "t1=0x1000000000000 ", `line 9: t1 is "0x1000000000000": want a number of 48 bits`},
		{" => ", " ", "line 8: no => between an event and its registers"},
		{"evaluate at=9", "evaluate at=9 ce=1", `line 10: evaluate has no field "ce"`},
		{"end 3", "end 4", "line 11: end 4, but the file has 3 events"},
		{"end 3", "end 3\nmore", `line 12: text behind the line "end"`},
		{"end 3", strings.Repeat("x", 1<<17), "line 11: more than 65536 bytes"},
	} {
		if !strings.Contains(text, c.old) {
			t.Fatalf("no %q in\n%s", c.old, text)
		}
		_, err := vectors.Read(strings.NewReader(strings.Replace(text, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s instead of %s: error %v, want %s", c.new, c.old, err, c.want)
		}
	}
}

// An implementation that does not have the registers of a file is reported with the event and
// the registers.
func TestReplayReports(t *testing.T) {
	v := vectors.All()[0]
	f := vectors.Expect(&v)
	f.Want[1].TxNs++
	err := f.Replay(vectors.Model)
	if want := "S1.5: 0, 5, 8: after event 2 (ack at=8 bytes=48 token=41 t1=5 echo_t2=5) these registers differ: [tx_ns=5], the file has [tx_ns=6]"; err == nil || strings.Replace(err.Error(), "flags=t1+echo ", "", 1) != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// A hex file has the parameters, the start, and each event with its registers.
func TestHex(t *testing.T) {
	v := vectors.All()[0]
	f := vectors.Expect(&v)
	var b strings.Builder
	if err := f.WriteHex(&b); err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(b.String())
	const params = 16
	if want := params + 4*vectors.HexRecordWords; len(words) != want {
		t.Fatalf("%d words, want %d", len(words), want)
	}
	record := func(n, word int) string { return words[params+n*vectors.HexRecordWords+word] }
	for _, c := range []struct {
		n, word int
		want    string
	}{
		{0, 0, "0000000000000003"}, // events
		{1, 0, "0000000000010000"}, // data with t1
		{2, 0, "0000000000030002"}, // feedback with t1 and echo
		{2, 1, "0000000000000008"}, // at
		{2, 4, "0000000000000005"}, // t1
		{2, vectors.HexEventWords + regs.DestTxNsOffset/8, "0000000000000005"},
		{2, vectors.HexEventWords + regs.DestRxNsOffset/8, "0000000000000003"},
		{3, 0, "0000000000000001"}, // evaluate
	} {
		if got := record(c.n, c.word); got != c.want {
			t.Errorf("record %d, word %d: %s, want %s", c.n, c.word, got, c.want)
		}
	}
}

// broken is the model with a defect.
type broken struct {
	vectors.Table
	naks, ces int
}

// Do counts a NAK twice if CE arrived before it, so that two events are needed to see it.
func (b *broken) Do(e *vectors.Event) {
	b.Table.Do(e)
	if !e.Evaluate && e.Packet.CE && e.Packet.Stamp.Token == vectors.Token {
		b.ces++
	}
	if !e.Evaluate && b.ces > 0 && e.Packet.Feedback && e.Packet.Syndrome>>5 == 3 && e.Packet.Stamp.Token == vectors.Token {
		b.naks++
	}
}

func (b *broken) Regs() bpf.DestRegs {
	d := b.Table.Regs()
	d.Naks += uint64(b.naks)
	return d
}

// A difference in a stream of many events shrinks to the events that cause it, and is printed
// as a vector file.
func TestShrink(t *testing.T) {
	wrong := func(v *vectors.Vector) vectors.Table { return &broken{Table: vectors.NewCard(v)} }
	for seed := range uint64(10) {
		v := vectors.Random(seed, 1000)
		if vectors.FirstDifference(&v, vectors.Model, wrong) < 0 {
			t.Errorf("seed %d: the stream does not find the defect", seed)
			continue
		}
		short := vectors.Shrink(&v, vectors.Model, wrong)
		if n := len(short.Events); n < 1 || n > 2 || vectors.FirstDifference(short, vectors.Model, wrong) != n-1 {
			t.Errorf("seed %d: %d events are left, want a NAK, and CE in it or before it", seed, n)
		}
	}
	v := vectors.Random(1, 1000)
	text := vectors.Explain(&v, vectors.Model, wrong)
	head, file, _ := strings.Cut(text, "\n")
	if head != "after the last event the first implementation has [naks=1], the second [naks=2]" {
		t.Error(head)
	}
	f, err := vectors.Read(strings.NewReader(file))
	if err != nil || f.Replay(vectors.Model) != nil || f.Replay(wrong) == nil {
		t.Errorf("%v\n%s", err, file)
	}
	if text := vectors.Explain(&v, vectors.Model, vectors.Model); text != "" {
		t.Errorf("no difference is explained:\n%s", text)
	}
}
