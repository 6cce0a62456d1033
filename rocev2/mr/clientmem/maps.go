// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// mapping is a range of addresses of a process with the same protection (proc_pid_maps(5)).
type mapping struct {
	start, end  uint64
	read, write bool
	device      uint64 // device of the file, major<<20 + minor; 0: none
}

// mappings calls visit for each mapping that has bytes of [addr, end), by address, until visit
// returns false.
func (p *Process) mappings(addr, end uint64, visit func(mapping) bool) error {
	if p.textOnly {
		return p.mappingsText(addr, end, visit)
	}
	var q procmapQuery
	for addr < end {
		switch errno := q.query(p.maps, addr); errno {
		case 0:
		case unix.ENOENT:
			return nil
		case unix.ESRCH:
			return ErrEnded
		case unix.ENOTTY: // before Linux 6.11
			return p.mappingsText(addr, end, visit)
		default:
			return fmt.Errorf("procmem: mappings of the process: %w", errno)
		}
		if q.start >= end || q.end <= addr {
			return nil
		}
		m := mapping{start: q.start, end: q.end, read: q.vmaFlags&procmapReadable != 0, write: q.vmaFlags&procmapWritable != 0, device: uint64(q.major)<<20 | uint64(q.minor)}
		if !visit(m) {
			return nil
		}
		addr = q.end
	}
	return nil
}

// mappingsText reads the text of maps, of which the kernel gives whole lines.
func (p *Process) mappingsText(addr, end uint64, visit func(mapping) bool) error {
	buf := make([]byte, 0, 64<<10)
	for at := int64(0); ; {
		n, err := unix.Pread(p.maps, buf[len(buf):cap(buf)], at)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.ESRCH) {
			return ErrEnded
		}
		if err != nil {
			return fmt.Errorf("procmem: mappings of the process: %w", err)
		}
		if n == 0 {
			if at == 0 {
				return ErrEnded
			}
			return nil
		}
		at += int64(n)
		buf = buf[:len(buf)+n]
		for {
			line, rest, ok := bytes.Cut(buf, []byte{'\n'})
			if !ok {
				break
			}
			m, err := parseMapping(line)
			if err != nil {
				return err
			}
			if m.start >= end || m.end > addr && !visit(m) {
				return nil
			}
			buf = rest
		}
		if len(buf) > 8<<10 {
			return fmt.Errorf("procmem: mappings of the process: a line of more than 8 KB")
		}
		buf = append(make([]byte, 0, 64<<10), buf...)
	}
}

// parseMapping parses the beginning of a line of maps. The path at its end may be any text.
func parseMapping(line []byte) (m mapping, err error) {
	var mode string
	var offset, major, minor uint64
	_, err = fmt.Sscanf(string(line[:min(len(line), 100)]), "%x-%x %4s %x %x:%x", &m.start, &m.end, &mode, &offset, &major, &minor)
	if err != nil || len(mode) != 4 {
		return m, fmt.Errorf("procmem: a line of maps that is none: %.80q", line)
	}
	m.read, m.write, m.device = mode[0] == 'r', mode[1] == 'w', major<<20|minor
	return m, nil
}
