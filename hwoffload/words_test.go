// SPDX-License-Identifier: Apache-2.0

package hwoffload_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
)

// The memory of a card behind a socket is read by many words at a time: with every alignment of
// start and end, across windows, and more than is sent ahead.
func TestDDRBehindSocket(t *testing.T) {
	m := card.New()
	addr := serve(t, m)
	const start, size = window - 5000, 20_000
	data := make([]byte, size)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	s := dial(t, addr)
	c, err := hwoffload.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.DDR().WriteAt(data, start); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, size)
	for first := range 10 {
		for _, length := range []int{1, 7, 8, 9, 17, 4096, 8190, size - 20} {
			for end := first + length; end < first+length+9; end++ {
				p := got[first:end]
				clear(p)
				if n, err := c.DDR().ReadAt(p, int64(start+first)); n != len(p) || err != nil || !bytes.Equal(p, data[first:end]) {
					t.Fatalf("%d bytes at %d: %d, %v, or other bytes", len(p), first, n, err)
				}
			}
		}
	}
	m.Set(errors.New("the card is on fire"))
	if n, err := c.DDR().ReadAt(got, start); n != 0 || err == nil || !strings.Contains(err.Error(), "the card is on fire") {
		t.Errorf("read %d bytes of a card that has failed: %v", n, err)
	}
}
