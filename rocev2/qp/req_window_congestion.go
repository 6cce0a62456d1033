// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

// How much may be under way to a destination, by congestion control: a rate says how
// fast, and if the bottleneck has become slower than that, all that is sent until the
// rate is cut waits there. A window in bytes ends that within a round trip. It holds for
// SEND and WRITE of RC, whose packets are answered; the data of READs flows the other
// way, and UC and UD have no answers.
//
// The packet that fills the window asks for an ACK, so that an answer is always on its way.

// SetWindow limits what may be under way, in bytes of frames; 0 is no limit. A packet
// may leave if less than that is, or nothing.
func (f *Flight) SetWindow(bytes uint64) { f.window = bytes }

// Window is the limit; 0: there is none.
func (f *Flight) Window() uint64 { return f.window }

// Bytes are under way: frames of SEND and WRITE that the peer has not answered.
func (f *Flight) Bytes() uint64 { return f.bytes }

// Pass has what NextData hands out next not mind the window and the line, as it is paid with
// something else. It counts all the same, and the limit of packets holds.
func (f *Flight) Pass(on bool) { f.bypassWindow = on }

// Open reports that the window has room for a packet.
func (f *Flight) Open() bool { return f.window == 0 || f.bytes < f.window || f.bytes == 0 }

// windowRoom is for how many of n packets of size bytes each the window has room.
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

// addInflightBytes notes that n more bytes are under way, or less.
func (q *QP) addInflightBytes(n int64) {
	if q.flight == nil {
		return
	}
	n = max(n, -int64(q.inflightBytes)) // what left before there was a flight
	q.inflightBytes += uint32(n)
	q.flight.bytes += uint64(n)
}

// bytesBetween are the bytes of frames from packet a to before packet b.
func (r *requester) bytesBetween(a, b uint64) (sum int64) {
	if r.q.inflightBytes == 0 || r.head == r.tail {
		return 0
	}
	i := r.head
	if r.at(i).end() <= a { // a READ holds up those behind it
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
			if end == w.end() { // the last one is shorter
				sum -= full - frameOverhead - int64(w.sizeOf(end-1, r.q.attr.PMTU))
			}
		}
		a = end
	}
	return sum
}

// sizeOf is the payload of packet n of a SEND or WRITE.
func (w *wqe) sizeOf(n uint64, m rocev2.PMTU) uint32 {
	off := uint32(n-w.first) << (7 + m)
	return min(w.length-off, 128<<m)
}
