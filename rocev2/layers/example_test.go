// SPDX-License-Identifier: Apache-2.0

package layers_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/google/gopacket"
	"github.com/google/gopacket/pcapgo"

	"github.com/softroce/softroce-xdp/rocev2/layers"
)

// Decodes a capture of an RDMA WRITE: opcode, queue pair, PSN and ICRC of each packet. The
// import of this package is enough for gopacket to know RoCEv2.
func Example() {
	file, err := os.Open("../testdata/captures/rc-write.pcap")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	capture, err := pcapgo.NewReader(file)
	if err != nil {
		log.Fatal(err)
	}
	for range 4 {
		frame, _, err := capture.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			log.Fatal(err)
		}
		p := gopacket.NewPacket(frame, capture.LinkType(), gopacket.Default)
		bth, ok := p.Layer(layers.LayerTypeBTH).(*layers.BTH)
		if !ok {
			continue // not RoCEv2
		}
		fmt.Printf("%s to %#x, PSN %d", bth.Opcode, bth.DestQP, bth.PSN)
		if reth, ok := p.Layer(layers.LayerTypeRETH).(*layers.RETH); ok {
			fmt.Printf(", %d bytes to rkey %#x", reth.DMALen, reth.RKey)
		}
		icrc, _ := p.Layer(layers.LayerTypeICRC).(*layers.ICRC)
		fmt.Printf(", ICRC correct: %v\n", icrc != nil && icrc.Err == nil)
	}

	// Output:
	// RC_WRITE_FIRST to 0x11, PSN 12997316, 1021 bytes to rkey 0x233, ICRC correct: true
	// RC_WRITE_MIDDLE to 0x11, PSN 12997317, ICRC correct: true
	// RC_WRITE_MIDDLE to 0x11, PSN 12997318, ICRC correct: true
	// RC_WRITE_LAST to 0x11, PSN 12997319, ICRC correct: true
}
