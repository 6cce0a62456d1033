// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"bytes"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// datagram takes a message of a UD queue pair: one of those that were sent here, in
// any order and any number of times, but whole and from whom it says.
func (e *Endpoint) datagram(c *verbs.Completion, slot int) {
	data := e.Recv.read(slot, int(c.Bytes))
	if int(c.Bytes) < verbs.GRHLen || len(data) != int(c.Bytes) {
		e.fail("datagram of %d bytes with its header of %d", c.Bytes, verbs.GRHLen)
		return
	}
	header, data := data[:verbs.GRHLen], data[verbs.GRHLen:]
	for i := range e.sentHere {
		d := &e.sentHere[i]
		want := verbs.Completion{
			WRID: c.WRID, QPN: c.QPN, Op: verbs.OpRecv, Bytes: c.Bytes, HasGRH: true, IPv4: header[0]>>4 != 6,
			SrcQP: d.from.QP.QPN(), Solicited: d.solicited,
		}
		if d.kind == verbs.OpSendImm {
			want.HasImm, want.Imm = true, d.imm
		}
		if *c != want || !bytes.Equal(d.data, data) {
			continue
		}
		if why := checkGRH(header, d.from.Node, e.Node); why != "" {
			e.fail("datagram: %s: %x", why, header)
		}
		d.times++
		return
	}
	e.fail("datagram %+v was not sent", *c)
}

// datagramSent is one that was sent, and how often it came.
type datagramSent struct {
	message
	from  *Endpoint
	times int
}

// checkGRH looks at the 40 bytes in front of a datagram: an IPv6 header, or in their
// second half an IPv4 header (annex A17.4.4.3).
func checkGRH(h []byte, from, to *Node) string {
	if from.Addr.Is4() {
		h = h[20:]
		if h[0] != 0x45 {
			return "no IPv4 header"
		}
		src, dst := from.Addr.As4(), to.Addr.As4()
		if !bytes.Equal(h[12:16], src[:]) || !bytes.Equal(h[16:20], dst[:]) {
			return "IPv4 header of other addresses"
		}
		return ""
	}
	src, dst := from.Addr.As16(), to.Addr.As16()
	if h[0]>>4 != 6 || !bytes.Equal(h[8:24], src[:]) || !bytes.Equal(h[24:40], dst[:]) {
		return "not the IPv6 header"
	}
	return ""
}

func format(c verbs.Completion) string { return fmt.Sprintf("%+v", c) }

// difference says where two byte strings of one length part.
func difference(got, want []byte) string {
	n, at := 0, -1
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			if n++; at < 0 {
				at = i
			}
		}
	}
	if at < 0 {
		return fmt.Sprintf("%d bytes instead of %d", len(got), len(want))
	}
	end := min(at+8, len(want))
	return fmt.Sprintf("%d of %d bytes differ, from %d on: %x instead of %x", n, len(want), at, got[at:min(end, len(got))], want[at:end])
}
