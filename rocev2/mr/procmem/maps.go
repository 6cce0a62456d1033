// SPDX-License-Identifier: Apache-2.0

package procmem

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Mapping is a range of addresses of a process with the same properties (proc_pid_maps(5)).
type Mapping struct {
	Start, End          uint64
	Read, Write, Shared bool
	Offset              uint64 // of Start in the file
	DevMajor, DevMinor  uint32 // device of the file; 0 with Inode 0: no file
	Inode               uint64
}

// Mappings calls visit for each mapping that has bytes of [addr, end), by address, until visit
// returns false.
func (p *Process) mappings(addr, end uint64, visit func(Mapping) bool) error {
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
		m := Mapping{
			Start: q.start, End: q.end, Offset: q.offset, DevMajor: q.major, DevMinor: q.minor, Inode: q.inode,
			Read: q.vmaFlags&procmapReadable != 0, Write: q.vmaFlags&procmapWritable != 0, Shared: q.vmaFlags&procmapShared != 0,
		}
		if !visit(m) {
			return nil
		}
		addr = q.end
	}
	return nil
}

// mappingsText reads the text of maps, of which the kernel gives whole lines.
func (p *Process) mappingsText(addr, end uint64, visit func(Mapping) bool) error {
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
			if m.Start >= end || m.End > addr && !visit(m) {
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

// parseMapping parses a line of maps. The path is left out: it may be any text.
func parseMapping(line []byte) (m Mapping, err error) {
	var mode string
	if _, err = fmt.Sscanf(string(line), "%x-%x %4s %x %x:%x %d", &m.Start, &m.End, &mode, &m.Offset, &m.DevMajor, &m.DevMinor, &m.Inode); err != nil || len(mode) != 4 {
		return m, fmt.Errorf("procmem: a line of maps that is none: %.80q", line)
	}
	m.Read, m.Write, m.Shared = mode[0] == 'r', mode[1] == 'w', mode[3] == 's'
	return m, nil
}
