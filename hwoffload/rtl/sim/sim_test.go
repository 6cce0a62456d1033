// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/rtl/sim"
	"github.com/softroce/softroce-xdp/hwoffload/rtl/verilate"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

func start(t testing.TB) *sim.Card {
	t.Helper()
	require.Command(t, verilate.Programs...)
	c, err := sim.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestOpen(t *testing.T) {
	c, err := hwoffload.Open(start(t))
	if err != nil {
		t.Fatal(err)
	}
	c.W32(regs.IdentScratchOffset, 0x11223344)
	if v := c.R32(regs.IdentScratchOffset); v != 0x11223344 || c.Err() != nil {
		t.Errorf("scratch %#x, error %v", v, c.Err())
	}
	data := []byte("a line that crosses windows")
	if _, err := c.DDR().WriteAt(data, 1<<28-9); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(data))
	if _, err := c.DDR().ReadAt(got, 1<<28-9); err != nil || string(got) != string(data) {
		t.Errorf("%q, %v", got, err)
	}
}
