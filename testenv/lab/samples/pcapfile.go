// SPDX-License-Identifier: Apache-2.0

package samples

// This file reads small captures for tests.

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/google/gopacket/pcapgo"
)

// Frames returns all frames of a pcap file, link-layer header first.
func Frames(t testing.TB, file string) [][]byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for {
		frame, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, frame)
	}
}
