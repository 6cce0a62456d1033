// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

// The congestion window: a limit of the bytes in flight to a destination. Congestion control
// sets a rate too. If the bottleneck becomes slower than the rate, packets queue there until
// the rate decreases. The window ends that within one RTT. It applies to SEND and WRITE of
// RC, which are acknowledged. READ data flows in the other direction, and UC and UD have no
// responses.
//
// The packet that fills the window requests an ACK, so that an ACK always follows.

// SetWindow sets the congestion window, in bytes of frames; 0 is no limit. A packet may
// leave if fewer bytes are in flight, or none.
func (f *Flight) SetWindow(bytes uint64) { f.window = bytes }

// Window returns the congestion window in bytes; 0 is no limit.
func (f *Flight) Window() uint64 { return f.window }

// Bytes returns the bytes in flight: frames of SEND and WRITE without a response.
func (f *Flight) Bytes() uint64 { return f.bytes }

// LostBytes returns how many bytes were taken off Bytes up to now because they were refused or lost, not acknowledged.
func (f *Flight) LostBytes() uint64 { return f.lostBytes }

// BypassWindow exempts the next packets of NextData from the window and the queue, because they
// have pre-credit. They count as in flight, and the limit in packets applies.
func (f *Flight) BypassWindow(on bool) { f.bypassWindow = on }

// Open reports whether the window has room for a packet.
func (f *Flight) Open() bool { return f.window == 0 || f.bytes < f.window || f.bytes == 0 }

// windowRoom returns for how many of n packets of size bytes each the window has room.
func (f *Flight) windowRoom(n, size uint32) uint32 {
	switch {
	case f.window == 0 || f.bypassWindow:
		return n
	case !f.Open():
		return 0
	case f.bytes >= f.window: // nothing is outstanding
		return min(n, 1)
	}
	left := f.window - f.bytes
	if left >= uint64(n)*uint64(size) {
		return n
	}
	return uint32((left-1)/uint64(size)) + 1
}

// addInflightBytes adds n, which may be negative, to the bytes in flight.
func (q *QP) addInflightBytes(n int64) {
	if q.flight == nil {
		return
	}
	n = max(n, -int64(q.inflightBytes)) // packets sent before SetFlight were not counted
	q.inflightBytes += uint32(n)
	q.flight.bytes += uint64(n)
}

// bytesBetween returns the bytes in flight of packets a to b-1.
func (r *requester) bytesBetween(a, b uint64) int64 {
	if r.q.inflightBytes == 0 {
		return 0
	}
	return r.frameBytes(a, b)
}

// frameBytes returns the bytes of the frames of packets a to b-1.
func (r *requester) frameBytes(a, b uint64) (sum int64) {
	if r.head == r.tail {
		return 0
	}
	i := r.head
	if r.at(i).end() <= a { // an unfinished READ keeps later work requests in the queue
		i = r.locate(a)
	}
	full := int64(r.q.attr.PMTU.Bytes()) + frameOverhead
	for ; i != r.tail && a < b; i++ {
		w := r.at(i)
		end := min(w.end(), b)
		if w.packets == 0 || end <= a {
			continue
		}
		if !w.isRead() {
			sum += int64(end-a) * full
			if end == w.end() { // the last packet is shorter
				sum -= full - frameOverhead - int64(w.sizeOf(end-1, r.q.attr.PMTU))
			}
		}
		a = end
	}
	return sum
}

// sizeOf returns the payload bytes of packet n of a SEND or WRITE.
func (w *wqe) sizeOf(n uint64, m rocev2.PMTU) uint32 {
	off := uint32(n-w.first) << (7 + m)
	return min(w.length-off, 128<<m)
}
