// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// Limits of a file.
const (
	maxLine   = 1 << 16 // bytes
	maxEvents = 1 << 20
)

// Read reads a vector file. An error names the line.
func Read(from io.Reader) (*File, error) {
	r := &reader{in: bufio.NewScanner(from), f: &File{}}
	r.in.Buffer(make([]byte, maxLine), maxLine)
	if err := r.file(); err != nil {
		return nil, fmt.Errorf("vector file, line %d: %w", r.line, err)
	}
	return r.f, nil
}

type reader struct {
	in   *bufio.Scanner
	line int
	f    *File
	now  bpf.DestRegs
}

// next returns the words of the next line that has any.
func (r *reader) next() ([]string, error) {
	for r.in.Scan() {
		r.line++
		if text := strings.TrimSpace(r.in.Text()); text != "" && !strings.HasPrefix(text, "#") {
			return strings.Fields(text), nil
		}
	}
	r.line++
	if errors.Is(r.in.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("more than %d bytes: is this a vector file?", maxLine)
	}
	if err := r.in.Err(); err != nil {
		return nil, err
	}
	return nil, errors.New("the file ends here, before its line \"end\": it is truncated")
}

// header reads a line that begins with a word, and returns the words behind it.
func (r *reader) header(word string) ([]string, error) {
	w, err := r.next()
	if err != nil {
		return nil, err
	}
	if w[0] != word {
		return nil, fmt.Errorf("%q, want %q", w[0], word)
	}
	return w[1:], nil
}

// version reads a line with a version, which must be the only one that is known.
func (r *reader) version(word string, known int, hint string) error {
	w, err := r.header(word)
	if err != nil {
		return err
	}
	if len(w) != 1 || w[0] != strconv.Itoa(known) {
		return fmt.Errorf("%s %s: this program knows %d: %s", word, strings.Join(w, " "), known, hint)
	}
	return nil
}

func (r *reader) file() error {
	if err := r.version("softroce-vector", FormatVersion, "use a program and a file of the same version"); err != nil {
		return err
	}
	name, err := r.header("name")
	if err != nil {
		return err
	}
	r.f.Name = strings.Join(name, " ")
	if err := r.version("abi", bpf.ABIVersion, "UPDATE=1 go test ./hwoffload/vectors writes the files again"); err != nil {
		return err
	}
	params, err := r.header("params")
	if err != nil {
		return err
	}
	if err := assign(paramRegisters, paramWordsOf(&r.f.Params)[:], params); err != nil {
		return err
	}
	if m := r.f.Params.Mode; m > fourcase.ModeFixed {
		return fmt.Errorf("mode is %d, want 0 to %d", m, fourcase.ModeFixed)
	}
	start, err := r.header("start")
	if err != nil {
		return err
	}
	if err := r.registers(start); err != nil {
		return err
	}
	first := r.now
	r.f.Start, r.f.Token = &first, first.RxToken
	return r.events()
}

// registers reads registers that have changed, and the checksum of all.
func (r *reader) registers(w []string) error {
	text, ok := "", false
	if len(w) > 0 {
		text, ok = strings.CutPrefix(w[len(w)-1], "sum=")
	}
	if !ok {
		return errors.New("no sum=CHECKSUM at the end of the line: it is truncated")
	}
	if err := assign(destRegisters, bpf.WordsOf(&r.now), w[:len(w)-1]); err != nil {
		return err
	}
	if got := fmt.Sprintf("%016x", sum(&r.now)); got != text {
		return fmt.Errorf("the registers have the checksum %s, the line says %s: it or an earlier line is damaged or missing", got, text)
	}
	return nil
}

func (r *reader) events() error {
	for {
		w, err := r.next()
		if err != nil {
			return err
		}
		if w[0] == "end" {
			return r.end(w[1:])
		}
		if len(r.f.Events) == maxEvents {
			return fmt.Errorf("more than %d events", maxEvents)
		}
		arrow := slices.Index(w, "=>")
		if arrow < 0 {
			return errors.New("no => between an event and its registers")
		}
		e, err := parseEvent(w[:arrow])
		if err != nil {
			return err
		}
		if err := r.registers(w[arrow+1:]); err != nil {
			return err
		}
		r.f.Events = append(r.f.Events, e)
		r.f.Want = append(r.f.Want, r.now)
	}
}

// end compares the number of events. Behind it there are only comments.
func (r *reader) end(w []string) error {
	if len(w) != 1 || w[0] != strconv.Itoa(len(r.f.Events)) {
		return fmt.Errorf("end %s, but the file has %d events: a line is missing", strings.Join(w, " "), len(r.f.Events))
	}
	for r.in.Scan() {
		r.line++
		if text := strings.TrimSpace(r.in.Text()); text != "" && !strings.HasPrefix(text, "#") {
			return errors.New("text behind the line \"end\"")
		}
	}
	return r.in.Err()
}

func parseEvent(w []string) (e Event, err error) {
	if len(w) == 0 {
		return e, errors.New("no event before =>")
	}
	switch w[0] {
	case "evaluate":
		e.Evaluate = true
	case "ack":
		e.Packet.Feedback = true
	case "data":
	default:
		return e, fmt.Errorf("event %q: want ack, data or evaluate", w[0])
	}
	seen := map[string]bool{}
	for _, t := range w[1:] {
		name, value, ok := strings.Cut(t, "=")
		if !ok || seen[name] {
			return e, fmt.Errorf("%q: want NAME=VALUE, each name once", t)
		}
		seen[name] = true
		if err := e.setField(name, value); err != nil {
			return e, err
		}
	}
	if !seen["at"] {
		return e, errors.New("the event has no time: at=NANOSECONDS")
	}
	return e, nil
}

// setField sets a field of an event by its name.
func (e *Event) setField(name, value string) error {
	if name == "at" {
		return setNumber(name, value, 64, func(v uint64) { e.At = v })
	}
	if e.Evaluate {
		return fmt.Errorf("evaluate has no field %q", name)
	}
	p := &e.Packet
	switch name {
	case "ce":
		return setNumber(name, value, 1, func(v uint64) { p.CE = v == 1 })
	case "flags":
		for flag := range strings.SplitSeq(value, "+") {
			bit := slices.Index(flagNames, flag)
			if bit < 0 {
				return fmt.Errorf("flag %q: want %s, joined by +", flag, strings.Join(flagNames, ", "))
			}
			p.Stamp.Flags |= 1 << bit
		}
		return nil
	}
	for _, f := range eventFields(p) {
		if f.name == name {
			return setNumber(name, value, f.bits, f.set)
		}
	}
	return fmt.Errorf("a packet has no field %q", name)
}

func setNumber(name, value string, bits int, set func(v uint64)) error {
	v, err := strconv.ParseUint(value, 0, bits)
	if err != nil {
		return fmt.Errorf("%s is %q: want a number of %d bits", name, value, bits)
	}
	set(v)
	return nil
}
