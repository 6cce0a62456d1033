// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"golang.org/x/sys/unix"
)

// Capture writes the frames that pass an interface, in both directions, to a pcap file
// with nanosecond times of the host's clock.
type Capture struct {
	sock *os.File
	out  *os.File
	done chan struct{}

	stop  sync.Once
	stats CaptureStats // both are the loop's until done is closed
	err   error
}

// CaptureStats tells how complete a capture is.
type CaptureStats struct {
	Written int  // frames in the file
	Dropped int  // frames that the kernel dropped because we were too slow
	Full    bool // CaptureConfig.Max was reached; later frames are not in the file
}

// CaptureConfig says what to capture.
type CaptureConfig struct {
	Iface string                  // interface in the Net's namespace, such as TapName(name, 0)
	Max   int                     // frames at most; must be positive
	Keep  func(frame []byte) bool // nil: all; the frame starts at the Ethernet header
}

// captureBuffer is how much the kernel may queue, some seconds of what emulated
// machines can send.
const captureBuffer = 32 << 20

// Capture starts capturing into a new file. Frames that pass after it has returned are seen.
func (n *Net) Capture(file string, cfg CaptureConfig) (*Capture, error) {
	if cfg.Max <= 0 {
		return nil, fmt.Errorf("rxepeer: capture on %s: Max must be positive", cfg.Iface)
	}
	c := &Capture{done: make(chan struct{})}
	err := n.do(func() (err error) {
		c.sock, err = packetSocket(cfg.Iface)
		return err
	})
	if err != nil {
		return nil, err
	}
	if c.out, err = os.Create(file); err != nil {
		c.sock.Close()
		return nil, err
	}
	w := pcapgo.NewWriterNanos(c.out)
	if err := w.WriteFileHeader(maxFrame, layers.LinkTypeEthernet); err != nil {
		c.sock.Close()
		c.out.Close()
		return nil, err
	}
	go func() {
		defer close(c.done)
		c.err = c.loop(w, cfg)
	}()
	return c, nil
}

// Stop waits a moment for frames in flight, ends the capture and closes the file. It may be
// called more than once.
func (c *Capture) Stop() (CaptureStats, error) {
	c.stop.Do(func() {
		err := c.sock.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if err != nil {
			c.err = errors.Join(err, c.sock.Close(), c.out.Close())
			return
		}
		<-c.done
		dropped, err := drops(c.sock)
		c.stats.Dropped = dropped
		c.err = errors.Join(c.err, err, c.sock.Close(), c.out.Close())
	})
	return c.stats, c.err
}

const maxFrame = 65536 + 18

func (c *Capture) loop(w *pcapgo.Writer, cfg CaptureConfig) error {
	raw, err := c.sock.SyscallConn()
	if err != nil {
		return err
	}
	buf, oob := make([]byte, maxFrame), make([]byte, 256)
	for c.stats.Written < cfg.Max {
		var size, oobLen int
		var recvErr error
		receive := func(fd uintptr) bool {
			// Four bytes are left in front for a VLAN tag to be put back.
			size, oobLen, _, _, recvErr = unix.Recvmsg(int(fd), buf[4:], oob, unix.MSG_TRUNC)
			return !errors.Is(recvErr, unix.EAGAIN)
		}
		err := raw.Read(receive)
		if errors.Is(err, os.ErrDeadlineExceeded) { // what the kernel has queued is still to be read
			queued := false
			if err = raw.Control(func(fd uintptr) { queued = receive(fd) }); err == nil && !queued {
				return nil
			}
		}
		if err := errors.Join(err, recvErr); err != nil {
			return fmt.Errorf("rxepeer: capture on %s: %w", cfg.Iface, err)
		}
		frame, at, err := restore(buf, min(size, len(buf)-4), oob[:oobLen])
		if err != nil {
			return err
		}
		if cfg.Keep != nil && !cfg.Keep(frame) {
			continue
		}
		ci := gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(frame), Length: len(frame)}
		if err := w.WritePacket(ci, frame); err != nil {
			return err
		}
		c.stats.Written++
	}
	c.stats.Full = true
	return nil
}

// packetSocket opens a packet socket on an interface of the current namespace.
func packetSocket(iface string) (*os.File, error) {
	link, err := net.InterfaceByName(iface)
	if err != nil {
		return nil, fmt.Errorf("rxepeer: capture on %s: %w", iface, err)
	}
	// Protocol 0 receives nothing until bind names both interface and protocol.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("rxepeer: packet socket: %w", err)
	}
	all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureBuffer),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}),
	)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("rxepeer: capture on %s: %w", iface, err)
	}
	return os.NewFile(uintptr(fd), "packet socket on "+iface), nil
}

// restore returns the frame of n bytes at buf[4:] as it was on the wire, with the VLAN
// tag that the kernel took out, and its time of arrival.
func restore(buf []byte, n int, oob []byte) ([]byte, time.Time, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("rxepeer: capture: control message: %w", err)
	}
	frame, at := buf[4:4+n], time.Now()
	for _, m := range msgs {
		ne := binary.NativeEndian
		switch {
		case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16:
			at = time.Unix(int64(ne.Uint64(m.Data)), int64(ne.Uint64(m.Data[8:])))
		case m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= 20:
			// struct tpacket_auxdata: status, len, snaplen (32 bits), mac, net, vlan_tci, vlan_tpid (16 bits)
			if ne.Uint32(m.Data)&unix.TP_STATUS_VLAN_VALID == 0 || n < 14 {
				continue
			}
			frame = buf[:4+n]
			copy(frame, frame[4:16])
			binary.BigEndian.PutUint16(frame[12:], ne.Uint16(m.Data[18:]))
			binary.BigEndian.PutUint16(frame[14:], ne.Uint16(m.Data[16:]))
		}
	}
	return frame, at, nil
}

func drops(sock *os.File) (int, error) {
	raw, err := sock.SyscallConn()
	if err != nil {
		return 0, err
	}
	var stats *unix.TpacketStats
	var statErr error
	if err := raw.Control(func(fd uintptr) {
		stats, statErr = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
	}); err != nil {
		return 0, err
	}
	if statErr != nil {
		return 0, statErr
	}
	return int(stats.Drops), nil
}
