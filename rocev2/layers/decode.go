// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"encoding/binary"

	"github.com/google/gopacket"
	gplayers "github.com/google/gopacket/layers"

	"github.com/softroce/softroce-xdp/rocev2"
)

// decodeBTH gets the UDP payload and adds all layers from the BTH on. gopacket ends
// the UDP payload at the UDP length, so the surplus area, like the addresses that
// the ICRC covers, is only in the IP layer; that is looked up in the packet under
// construction, which both of gopacket's builders expose as a gopacket.Packet.
func decodeBTH(data []byte, b gopacket.PacketBuilder) error {
	udp, ip := carriers(b)
	if udp != nil && udp.DstPort != rocev2.UDPPort {
		// gopacket also goes by the source port. A RoCEv2 source port can be anything
		// and a packet from 4791 is none.
		return b.NextDecoder(gopacket.LayerTypePayload)
	}
	datagram := ipDatagram(ip, udp)
	if datagram == nil {
		return decodeBare(data, b)
	}
	p, err := rocev2.ParseIP(datagram)
	switch err {
	case nil:
	case rocev2.ErrTruncated:
		b.SetTruncated()
	case rocev2.ErrShort, rocev2.ErrShortBTH:
		b.SetTruncated()
		return err
	default:
		return err
	}
	add(b, p.BTH(), data[rocev2.BTHLen:])
	addExt(b, data[rocev2.BTHLen:], p.Opcode())
	addPayload(b, p.Payload())
	if err := p.VerifyICRC(); err != rocev2.ErrNoICRC {
		addICRC(b, data, err)
	}
	if area := p.Surplus(); len(area) > 0 {
		base := gplayers.BaseLayer{Contents: area}
		if s, err := p.Stamp(); err == nil {
			b.AddLayer(&Stamp{base, s})
		} else {
			b.AddLayer(&Surplus{base, err})
		}
	}
	return nil
}

// carriers returns the last two layers so far, if they are UDP behind IP. Not
// TransportLayer and NetworkLayer: in a tunnel those are the outer ones.
func carriers(b gopacket.PacketBuilder) (*gplayers.UDP, gopacket.NetworkLayer) {
	p, ok := b.(gopacket.Packet)
	if !ok {
		return nil, nil
	}
	l := p.Layers()
	if len(l) == 0 {
		return nil, nil
	}
	udp, ok := l[len(l)-1].(*gplayers.UDP)
	if !ok || len(l) == 1 {
		return udp, nil
	}
	switch ip := l[len(l)-2].(type) {
	case *gplayers.IPv4:
		return udp, ip
	case *gplayers.IPv6:
		return udp, ip
	}
	return udp, nil
}

// ipDatagram puts IP header and payload, neighbours in the buffer, together again.
func ipDatagram(ip gopacket.NetworkLayer, udp *gplayers.UDP) []byte {
	if ip == nil || udp == nil {
		return nil
	}
	header, payload := ip.LayerContents(), ip.LayerPayload()
	n := len(header) + len(payload)
	if len(header) == 0 || len(payload) == 0 || cap(header) < n || &header[:n][len(header)] != &payload[0] {
		return nil
	}
	return header[:n:n]
}

// decodeBare decodes a BTH that does not stand behind IP and UDP, for instance with
// gopacket.NewPacket(data, LayerTypeBTH, …). Its ICRC cannot be checked.
func decodeBare(data []byte, b gopacket.PacketBuilder) error {
	h, err := rocev2.ParseBTH(data)
	if err != nil {
		b.SetTruncated()
		return err
	}
	body := data[rocev2.BTHLen:]
	ext := int(h.Opcode().Info().ExtLen)
	if len(body) < ext+h.PadCount()+rocev2.ICRCLen {
		b.SetTruncated()
		return rocev2.ErrShort
	}
	add(b, h, body)
	addExt(b, body, h.Opcode())
	addPayload(b, body[ext:len(body)-rocev2.ICRCLen-h.PadCount()])
	addICRC(b, data, rocev2.ErrNotIP)
	return nil
}

func add(b gopacket.PacketBuilder, h rocev2.BTH, rest []byte) {
	b.AddLayer(&BTH{
		BaseLayer: gplayers.BaseLayer{Contents: h, Payload: rest},
		Opcode:    h.Opcode(), Solicited: h.Solicited(), MigReq: h.MigReq(),
		PadCount: uint8(h.PadCount()), Version: h.Version(), PKey: h.PKey(),
		FECN: h.FECN(), BECN: h.BECN(), DestQP: h.DestQP(), AckReq: h.AckReq(), PSN: h.PSN(),
	})
}

// addExt adds the extended headers of the opcode; body is checked to hold them.
func addExt(b gopacket.PacketBuilder, body []byte, op rocev2.Opcode) {
	ext := op.Ext()
	next := func(n int) gplayers.BaseLayer {
		base := gplayers.BaseLayer{Contents: body[:n:n], Payload: body[n:]}
		body = body[n:]
		return base
	}
	if ext&rocev2.ExtFETH != 0 {
		base := next(rocev2.FETHLen)
		h := rocev2.FETH(base.Contents)
		b.AddLayer(&FETH{base, h.Placement(), h.Selectivity()})
	}
	if ext&rocev2.ExtDETH != 0 {
		base := next(rocev2.DETHLen)
		h := rocev2.DETH(base.Contents)
		b.AddLayer(&DETH{base, h.QKey(), h.SrcQP()})
	}
	if ext&rocev2.ExtRETH != 0 {
		base := next(rocev2.RETHLen)
		h := rocev2.RETH(base.Contents)
		b.AddLayer(&RETH{base, h.VA(), h.RKey(), h.DMALen()})
	}
	if ext&rocev2.ExtAtomicETH != 0 {
		base := next(rocev2.AtomicETHLen)
		h := rocev2.AtomicETH(base.Contents)
		b.AddLayer(&AtomicETH{base, h.VA(), h.RKey(), h.SwapOrAdd(), h.Compare()})
	}
	if ext&rocev2.ExtAETH != 0 {
		base := next(rocev2.AETHLen)
		h := rocev2.AETH(base.Contents)
		b.AddLayer(&AETH{base, h.Syndrome(), h.MSN()})
	}
	if ext&rocev2.ExtAtomicAckETH != 0 {
		base := next(rocev2.AtomicAckETHLen)
		b.AddLayer(&AtomicAckETH{base, rocev2.AtomicAckETH(base.Contents).Original()})
	}
	if ext&rocev2.ExtImmDt != 0 {
		base := next(rocev2.ImmDtLen)
		b.AddLayer(&ImmDt{base, rocev2.ImmDt(base.Contents).Value()})
	}
	if ext&rocev2.ExtIETH != 0 {
		base := next(rocev2.IETHLen)
		b.AddLayer(&IETH{base, rocev2.IETH(base.Contents).RKey()})
	}
	if ext&rocev2.ExtSACK != 0 {
		base := next(rocev2.SACKLen)
		hi, lo := rocev2.SACK(base.Contents).Bits()
		b.AddLayer(&SACK{base, hi, lo})
	}
	if ext&rocev2.ExtHello != 0 {
		base := next(rocev2.HelloLen)
		h, err := rocev2.ParseHello(base.Contents)
		b.AddLayer(&Hello{base, h, err})
	}
	if ext&rocev2.ExtGrant != 0 {
		base := next(rocev2.CreditLen)
		h := rocev2.CreditGrant(base.Contents)
		b.AddLayer(&CreditGrant{base, h.Fields(), h.Version(), h.LifeNs()})
	}
	if ext&rocev2.ExtReturn != 0 {
		base := next(rocev2.CreditLen)
		h := rocev2.CreditReturn(base.Contents)
		b.AddLayer(&CreditReturn{base, h.Fields(), h.Version(), h.Sent(), h.Void()})
	}
	if ext&rocev2.ExtRateLimit != 0 {
		base := next(rocev2.RateLimitLen)
		h := rocev2.RateLimit(base.Contents)
		b.AddLayer(&RateLimit{base, h.Fields(), h.Version()})
	}
	addOOO(b, ext, next)
}

// addOOO adds the header of a packet of out-of-order mode.
func addOOO(b gopacket.PacketBuilder, ext rocev2.Ext, next func(int) gplayers.BaseLayer) {
	switch {
	case ext&rocev2.ExtOETH != 0:
		base := next(rocev2.OETHLen)
		h := rocev2.OETH(base.Contents)
		b.AddLayer(&OETH{base, h.Fields(), h.Version()})
	case ext&rocev2.ExtOACK != 0:
		base := next(rocev2.OACKLen)
		b.AddLayer(&OACK{base, rocev2.OACK(base.Contents).Fields()})
	case ext&rocev2.ExtONotify != 0:
		base := next(rocev2.ONotifyLen)
		b.AddLayer(&ONotify{base, rocev2.ONotify(base.Contents).Fields()})
	case ext&rocev2.ExtONotifyAck != 0:
		base := next(rocev2.ONotifyAckLen)
		b.AddLayer(&ONotifyAck{base, rocev2.ONotifyAck(base.Contents).Fields()})
	case ext&rocev2.ExtONak != 0:
		base := next(rocev2.ONakLen)
		b.AddLayer(&ONak{base, rocev2.ONak(base.Contents).Fields()})
	}
}

func addPayload(b gopacket.PacketBuilder, payload []byte) {
	if len(payload) == 0 {
		return
	}
	l := gopacket.Payload(payload)
	b.AddLayer(&l)
	b.SetApplicationLayer(&l)
}

// addICRC adds the last four bytes of the UDP payload.
func addICRC(b gopacket.PacketBuilder, data []byte, verdict error) {
	field := data[len(data)-rocev2.ICRCLen:]
	b.AddLayer(&ICRC{gplayers.BaseLayer{Contents: field}, binary.LittleEndian.Uint32(field), verdict})
}
