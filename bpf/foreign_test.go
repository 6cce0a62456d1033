// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// What is no RoCEv2 goes through both programs byte for byte, counted nowhere.
func TestForeignTrafficUntouched(t *testing.T) {
	l := newLab(t)
	for name, frame := range foreignFrames(t) {
		t.Run(name, func(t *testing.T) {
			l := l.with(t)
			if verdict, out := l.in(frame); verdict != xdpPass || !bytes.Equal(out, frame) {
				t.Errorf("ingress: verdict %d\n got %x\nwant %x", verdict, out, frame)
			}
			if verdict, out := l.out(frame); verdict != tcNext || !bytes.Equal(out, frame) {
				t.Errorf("egress: verdict %d\n got %x\nwant %x", verdict, out, frame)
			}
			l.wantCounters()
			if n := l.entries(); n != 0 {
				t.Errorf("%d entries", n)
			}
		})
	}
}

// foreignFrames are built by gopacket, so that they are right where our own code
// might be wrong.
func foreignFrames(t testing.TB) map[string][]byte {
	eth := func(typ layers.EthernetType) *layers.Ethernet {
		return &layers.Ethernet{SrcMAC: peerMAC[:], DstMAC: usMAC[:], EthernetType: typ}
	}
	v4 := func(p layers.IPProtocol) *layers.IPv4 {
		return &layers.IPv4{Version: 4, TTL: 64, Protocol: p, SrcIP: peer4.AsSlice(), DstIP: us4.AsSlice()}
	}
	v6 := func(p layers.IPProtocol) *layers.IPv6 {
		return &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: p, SrcIP: peer6.AsSlice(), DstIP: us6.AsSlice()}
	}
	tag := func(id uint16, typ layers.EthernetType) *layers.Dot1Q {
		return &layers.Dot1Q{VLANIdentifier: id, Type: typ}
	}
	payload := gopacket.Payload(bytes.Repeat([]byte("softroce"), 12))
	frames := map[string][]byte{}
	add := func(name string, ls ...gopacket.SerializableLayer) {
		buf := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true}, ls...); err != nil {
			t.Fatal(name, err)
		}
		frames[name] = buf.Bytes()
	}
	const roce = 4791
	udp53 := &layers.UDP{SrcPort: roce, DstPort: 53}
	tcp := &layers.TCP{SrcPort: 1, DstPort: roce, SYN: true}
	add("ARP", eth(layers.EthernetTypeARP), &layers.ARP{AddrType: 1, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4,
		Operation: 1, SourceHwAddress: peerMAC[:], SourceProtAddress: peer4.AsSlice(), DstHwAddress: make([]byte, 6), DstProtAddress: us4.AsSlice()})
	add("TCP to port 4791", eth(layers.EthernetTypeIPv4), v4(layers.IPProtocolTCP), tcp, payload)
	add("ICMP", eth(layers.EthernetTypeIPv4), v4(layers.IPProtocolICMPv4), &layers.ICMPv4{TypeCode: 8 << 8}, payload)
	add("UDP from port 4791 to 53", eth(layers.EthernetTypeIPv4), v4(layers.IPProtocolUDP), udp53, payload)
	add("IPv6 TCP", eth(layers.EthernetTypeIPv6), v6(layers.IPProtocolTCP), tcp, payload)
	add("IPv6 UDP to 53", eth(layers.EthernetTypeIPv6), v6(layers.IPProtocolUDP), udp53, payload)
	add("IPv6 neighbour solicitation", eth(layers.EthernetTypeIPv6), v6(layers.IPProtocolICMPv6),
		&layers.ICMPv6{TypeCode: layers.ICMPv6TypeNeighborSolicitation << 8}, payload)
	add("VLAN, TCP", eth(layers.EthernetTypeDot1Q), tag(5, layers.EthernetTypeIPv4), v4(layers.IPProtocolTCP), tcp, payload)
	add("VLAN, ARP", eth(layers.EthernetTypeDot1Q), tag(5, layers.EthernetTypeARP), payload)
	add("QinQ, UDP to 53", eth(layers.EthernetTypeQinQ), tag(5, layers.EthernetTypeDot1Q), tag(6, layers.EthernetTypeIPv4), v4(layers.IPProtocolUDP), udp53, payload)
	add("GRE", eth(layers.EthernetTypeIPv4), v4(layers.IPProtocolGRE), payload)
	add("LLDP", eth(layers.EthernetTypeLinkLayerDiscovery), payload)
	frames["empty Ethernet frame"] = frames["LLDP"][:14]
	rocev1 := bytes.Clone(frames["LLDP"])
	binary.BigEndian.PutUint16(rocev1[12:], 0x8915)
	frames["RoCEv1"] = rocev1
	small := bytes.Clone(frames["TCP to port 4791"])[:36]
	frames["IPv4 cut off behind its header"] = small
	return frames
}
