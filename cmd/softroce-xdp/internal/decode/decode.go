// SPDX-License-Identifier: Apache-2.0

// Package decode prints the RoCEv2 packets of a capture, one line each, with the
// verdict on their ICRC and what their stamp option says.
package decode

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/gopacket"

	"github.com/softroce/softroce-xdp/rocev2"
)

// Options says what to print.
type Options struct {
	All   bool // print one line also for each packet that is not RoCEv2
	Quiet bool // the summary only
}

// Summary counts the packets of a capture. Each packet is one of RoCE, Malformed
// and Other; the rest are counts of RoCE.
type Summary struct {
	Packets   int // all
	RoCE      int // RoCEv2
	Malformed int // packets to port 4791 whose lengths do not fit together
	Other     int // anything else
	GoodICRC  int
	BadICRC   int
	Unchecked int // the capture ends before the ICRC
	Stamped   int // packets with a stamp option that could be read
}

// File decodes the pcap or pcapng file at path, "-" being the standard input, and
// writes one line a packet and the summary to w.
//
// A bad ICRC is no error; see Summary.BadICRC. Errors are those of opening, reading
// and writing; they name the file and what to do. Packets before a damaged place
// are printed and counted.
func File(w io.Writer, path string, o Options) (Summary, error) {
	if path == "-" {
		return Stream(w, os.Stdin, "standard input", o)
	}
	f, err := os.Open(path)
	if err != nil {
		return Summary{}, err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return Summary{}, fmt.Errorf("%s is a directory: name a capture file", path)
	}
	return Stream(w, f, path, o)
}

// Stream is File for an open capture; name stands for it in errors.
func Stream(w io.Writer, r io.Reader, name string, o Options) (Summary, error) {
	var s Summary
	src, err := openCapture(r)
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	line := make([]byte, 0, 512)
	for {
		data, ci, link, err := src.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return s, fmt.Errorf("%s: after packet %d: %w", name, s.Packets, err)
		}
		line, err = s.packet(line[:0], data, ci, link, o)
		if err != nil {
			return s, fmt.Errorf("%s: packet %d: %w", name, s.Packets, err)
		}
		if len(line) > 0 {
			if _, err := w.Write(append(line, '\n')); err != nil {
				return s, err
			}
		}
	}
	_, err = fmt.Fprintln(w, s)
	return s, err
}

// packet counts one packet and appends its line, if there is one to print.
func (s *Summary) packet(line, data []byte, ci gopacket.CaptureInfo, link linkType, o Options) ([]byte, error) {
	s.Packets++
	p, err := link.parse(data)
	var kind rocev2.Error
	if err != nil && !errors.As(err, &kind) {
		return line, err
	}
	switch {
	case kind.Foreign():
		s.Other++
		if o.All && !o.Quiet {
			line = appendTime(line, ci.Timestamp)
			line = fmt.Appendf(line, " %s, %d bytes", text(kind), ci.Length)
		}
		return line, nil
	case kind == rocev2.ErrShortBTH && ci.CaptureLength < ci.Length:
		s.RoCE++
		s.Unchecked++
		if !o.Quiet {
			line = appendTime(line, ci.Timestamp)
			line = append(line, " RoCEv2, truncated inside its headers: ICRC not checked"...)
		}
		return line, nil
	case kind != 0 && kind != rocev2.ErrTruncated:
		s.Malformed++
		if !o.Quiet {
			line = appendTime(line, ci.Timestamp)
			line = fmt.Appendf(line, " malformed RoCEv2: %s", text(kind))
		}
		return line, nil
	}

	s.RoCE++
	icrc := p.VerifyICRC()
	switch icrc {
	case nil:
		s.GoodICRC++
	case rocev2.ErrICRC:
		s.BadICRC++
	default:
		s.Unchecked++
	}
	if _, err := p.Stamp(); err == nil {
		s.Stamped++
	}
	if o.Quiet {
		return line, nil
	}
	line = appendTime(line, ci.Timestamp)
	return appendPacket(line, &p, icrc), nil
}

// String is the last line of the output.
func (s Summary) String() string {
	return fmt.Sprintf("%d packets: %d RoCEv2 (ICRC %d ok, %d BAD, %d not checked; %d stamped), %d malformed, %d other",
		s.Packets, s.RoCE, s.GoodICRC, s.BadICRC, s.Unchecked, s.Stamped, s.Malformed, s.Other)
}
