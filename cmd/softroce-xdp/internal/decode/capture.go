// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/google/gopacket"
	"github.com/google/gopacket/pcapgo"

	"github.com/softroce/softroce-xdp/rocev2"
)

// linkType is the number of tcpdump.org/linktypes.html.
type linkType uint32

const (
	linkEthernet linkType = 1
	linkRawOld   linkType = 12
	linkRaw      linkType = 101
	linkSLL      linkType = 113
	linkIPv4     linkType = 228
	linkIPv6     linkType = 229
	linkSLL2     linkType = 276

	// pcapgo keeps only the low byte of a pcapng link type. 20 is not assigned, so
	// it can only be SLL2.
	linkSLL2Low = linkSLL2 & 0xFF
)

// parse finds the RoCEv2 headers behind the link header.
func (l linkType) parse(data []byte) (rocev2.Packet, error) {
	switch l {
	case linkEthernet:
		return rocev2.ParseFrame(data)
	case linkRaw, linkRawOld, linkIPv4, linkIPv6:
		return rocev2.ParseIP(data)
	case linkSLL:
		return parseCooked(data, 16, 14)
	case linkSLL2, linkSLL2Low:
		return parseCooked(data, 20, 0)
	}
	return rocev2.Packet{}, fmt.Errorf("link type %d is not supported: capture on an Ethernet interface or with -i any", l)
}

// parseCooked skips the header that Linux puts in front on the "any" interface.
func parseCooked(data []byte, headerLen, protoOff int) (rocev2.Packet, error) {
	if len(data) < headerLen {
		return rocev2.Packet{}, rocev2.ErrShort
	}
	const ipv4, ipv6 = 0x0800, 0x86DD
	if proto := binary.BigEndian.Uint16(data[protoOff:]); proto != ipv4 && proto != ipv6 {
		return rocev2.Packet{}, rocev2.ErrNotIP
	}
	return rocev2.ParseIP(data[headerLen:])
}

// capture reads packets of either file format.
type capture struct {
	pcap *pcapgo.Reader
	ng   *pcapgo.NgReader
	link linkType // pcap
}

// maxPacket is the largest packet that libpcap's tools write (MAXIMUM_SNAPLEN).
const maxPacket = 262144

var errNotCapture = errors.New("not a pcap or pcapng capture: write one with `tcpdump -w FILE udp port 4791`")

func openCapture(r io.Reader) (*capture, error) {
	const pcapHeaderLen = 24
	br := bufio.NewReaderSize(r, 64<<10)
	head, err := br.Peek(pcapHeaderLen)
	switch {
	case err != nil && err != io.EOF:
		return nil, err
	case len(head) == 0:
		return nil, errors.New("the file is empty: did the capture run as root?")
	case bytes.HasPrefix(head, []byte{0x1F, 0x8B}):
		return nil, errors.New("gzip-compressed: unpack it first (zcat FILE | softroce-xdp decode -)")
	case bytes.HasPrefix(head, []byte{0x28, 0xB5, 0x2F, 0xFD}):
		return nil, errors.New("zstd-compressed: unpack it first (zstdcat FILE | softroce-xdp decode -)")
	case len(head) < pcapHeaderLen:
		return nil, errNotCapture
	}
	var order binary.ByteOrder
	switch binary.BigEndian.Uint32(head) {
	case 0x0A0D0D0A:
		ng, err := pcapgo.NewNgReader(br, pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true})
		if err != nil {
			return nil, fmt.Errorf("damaged pcapng: %w", err)
		}
		return &capture{ng: ng}, nil
	case 0xA1B2C3D4, 0xA1B23C4D:
		order = binary.BigEndian
	case 0xD4C3B2A1, 0x4D3CB2A1:
		order = binary.LittleEndian
	default:
		return nil, errNotCapture
	}
	// Read here because pcapgo keeps one byte of it. The upper bits are not the type.
	link := linkType(order.Uint32(head[20:]) & 0xFFFF)
	p, err := pcapgo.NewReader(br)
	if err != nil {
		return nil, fmt.Errorf("damaged pcap: %w", err)
	}
	// Some writers declare a snap length and exceed it; pcapgo would stop there.
	p.SetSnaplen(max(p.Snaplen()&(1<<20-1), maxPacket))
	return &capture{pcap: p, link: link}, nil
}

// next returns the next packet; the data is valid until the next call. The error is
// io.EOF at the end of a whole file.
func (c *capture) next() (data []byte, ci gopacket.CaptureInfo, link linkType, err error) {
	// pcapgo was written for files that are in order.
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("damaged capture: lengths in it do not fit together")
		}
	}()
	if c.pcap != nil {
		data, ci, err = c.pcap.ZeroCopyReadPacketData()
		link = c.link
	} else {
		data, ci, err = c.ng.ZeroCopyReadPacketData()
		if err == nil {
			var iface pcapgo.NgInterface
			iface, err = c.ng.Interface(ci.InterfaceIndex)
			link = linkType(iface.LinkType)
		}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file ends inside a packet: the capture was cut off")
	}
	return data, ci, link, err
}
