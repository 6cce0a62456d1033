// SPDX-License-Identifier: Apache-2.0

package rtl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/internal/devtest"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/rtl"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// answer limits the wait for an answer.
const answer = time.Minute

func start(t testing.TB) *rtl.Card {
	t.Helper()
	require.Command(t, rtl.Programs...)
	c, err := rtl.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// The driver opens the simulated card, and its DDR has 16 GB behind the window (S2.5).
func TestOpen(t *testing.T) {
	c, err := hwoffload.Open(start(t))
	if err != nil {
		t.Fatal(err)
	}
	c.W32(regs.IdentScratchOffset, 0x11223344)
	if v := c.R32(regs.IdentScratchOffset); v != 0x11223344 || c.Err() != nil {
		t.Errorf("scratch %#x, error %v", v, c.Err())
	}
	// A line that crosses windows, and the same offset in each of the 64 windows.
	text := func(i int64) string { return fmt.Sprintf("a line of window %d", i) }
	places := []int64{1<<28 - 9}
	for window := range int64(64) {
		places = append(places, window<<28|12345)
	}
	for i, at := range places {
		if _, err := c.DDR().WriteAt([]byte(text(int64(i))), at); err != nil {
			t.Fatal(err)
		}
	}
	for i, at := range places {
		want := text(int64(i))
		got := make([]byte, len(want))
		if _, err := c.DDR().ReadAt(got, at); err != nil || string(got) != want {
			t.Errorf("%#x: %q, %v", at, got, err)
		}
	}
}

// The RTL has the registers of the definition.
func TestFields(t *testing.T) { devtest.Run(t, start(t), devtest.Options{}) }

// The clock of the card stands still until it is set, and counts the nanoseconds of cycles.
func TestClock(t *testing.T) {
	c := start(t)
	now := regs.CallsOf(c).NowNs
	if a, b := now(), now(); a != 0 || b != 0 {
		t.Errorf("the clock of a new card is %d, then %d", a, b)
	}
	c.SetClock(1<<40, true)
	before, cycles := now(), c.Cycles()
	c.Step(1000)
	after := now()
	n := c.Cycles() - cycles
	// Both times are rounded down.
	if d, want := after-before, n*1_000_000_000/rtl.ClockHz; d < want || d > want+1 || n < 1000 || before < 1<<40 {
		t.Errorf("%d ns in %d cycles, from %d on", d, n, before)
	}
	// The halves of a time belong together.
	c.SetClock(1<<32-1, false)
	low := c.R32(regs.CallsBase + regs.CallsNowNsOffset)
	c.SetClock(1<<32, false)
	high := c.R32(regs.CallsBase + regs.CallsNowNsOffset + 4)
	if low != 0xffffffff || high != 0 {
		t.Errorf("halves %#x %#x", high, low)
	}
}

// An entry with a window to evaluate has its bit in calls.active, until it is collected.
func TestActive(t *testing.T) {
	c := start(t)
	const element = 70
	regs.DestOf(c, element).SetRxToken(7)
	p := card.Packet{Bytes: 100, Stamp: rocev2.Stamp{Flags: rocev2.StampT1, Token: 7, T1: 3}}
	c.Receive(element+1, &p, 10)
	calls := regs.CallsOf(c)
	active := func() (bits []int) {
		for i := range 1024 {
			if calls.Active(i/32)>>(i%32)&1 != 0 {
				bits = append(bits, i)
			}
		}
		return bits
	}
	if got := active(); len(got) != 1 || got[0] != element {
		t.Errorf("active %v, want %d", got, element)
	}
	calls.SetCollect(regs.CallsCollect(0).WithCollectElement(element).WithCollectStart(true))
	if !calls.Result().Done() || calls.Buffer(regs.DestInTxNsOffset/8) != 7 || len(active()) != 0 {
		t.Errorf("collect: done %v, in_tx_ns %d, then active %v", calls.Result().Done(), calls.Buffer(regs.DestInTxNsOffset/8), active())
	}
	calls.SetCollect(regs.CallsCollect(0).WithCollectElement(element).WithCollectStart(true))
	if calls.Result().Done() || c.Err() != nil {
		t.Errorf("a second collect is done, or error %v", c.Err())
	}
}

// Fields of apply: the same registers change as on the model.
func TestApply(t *testing.T) {
	c, m := start(t), card.NewAt(func() uint64 { return 1000 })
	c.SetClock(1000, false)
	for fields := range uint32(64) {
		for _, next := range []uint64{0, 1000, 5000} {
			for _, d := range []hwoffload.Device{c, m} {
				for i := range uint64(regs.CallsBufferCount) {
					d.W64(regs.DestBase+regs.DestStride+i*8, 0x0101010101010101*i)
					d.W64(regs.CallsBase+regs.CallsBufferOffset+i*8, ^(0x0101010101010101 * i))
				}
				regs.DestOf(d, 1).SetNextTxNs(next)
				calls := regs.CallsOf(d)
				calls.SetShiftNs(700)
				calls.SetApply(regs.CallsApply(0).WithApplyElement(1).WithApplySet(fields).WithApplyStart(true))
			}
			for at := uint64(0); at < regs.DestStride; at += 8 {
				if got, want := c.R64(regs.DestBase+regs.DestStride+at), m.R64(regs.DestBase+regs.DestStride+at); got != want {
					t.Fatalf("apply %#b with next_tx_ns %d: offset %#x is %#x, want %#x", fields, next, at, got, want)
				}
			}
		}
	}
}

// A simulator that dies is an error, and nothing hangs.
func TestDies(t *testing.T) {
	require.Command(t, rtl.Programs...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, err := rtl.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for c.Err() == nil {
		c.R32(0)
	}
	if !strings.Contains(c.Err().Error(), "does its process still run?") {
		t.Error(c.Err())
	}
	c.Close()
	c.Close() // has no effect
}

// A second client is refused while the first is connected, and its messages are checked.
func TestSecondClient(t *testing.T) {
	c := start(t)
	if _, err := hwoffload.Dial(c.Addr(), answer); err == nil || !strings.Contains(err.Error(), "another process uses the card") {
		t.Errorf("a second client: %v", err)
	}
	if c.R32(0) != regs.IdentMagicReset || c.Err() != nil {
		t.Errorf("the first client: %v", c.Err())
	}
	c.Post(0x7f)
	if c.R32(0); c.Err() == nil || !strings.Contains(c.Err().Error(), "the message is unknown") {
		t.Errorf("an unknown message: %v", c.Err())
	}
	next, err := hwoffload.Dial(c.Addr(), answer)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if next.R32(0) != regs.IdentMagicReset {
		t.Error(next.Err())
	}
}

// Verilator has no warning for any module.
func TestLint(t *testing.T) {
	require.Command(t, "verilator")
	if err := rtl.Lint(t.Context(), "softroce_card", rtl.CardFiles...); err != nil {
		t.Error(err)
	}
}

// BenchmarkAccess measures register accesses of the simulator, as that of package hwoffload
// does for other devices.
func BenchmarkAccess(b *testing.B) {
	c := start(b)
	b.Run("read", func(b *testing.B) {
		for range b.N {
			c.R32(regs.IdentScratchOffset)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "accesses/s")
	})
	b.Run("write", func(b *testing.B) {
		for i := range b.N {
			c.W32(regs.IdentScratchOffset, uint32(i))
		}
		c.R32(regs.IdentScratchOffset)
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "accesses/s")
	})
	if c.Err() != nil {
		b.Fatal(c.Err())
	}
}

// The RTL has the registers of pre-credit and nothing behind them, and the driver finds that out.
func TestPreCreditIsRefused(t *testing.T) {
	c, err := hwoffload.Open(start(t))
	if err != nil {
		t.Fatal(err)
	}
	plan := driver.PlanPreCredit(100e9, 10_000, 1<<20, 4096)
	if err := driver.EnablePreCredit(c, plan, 1); !errors.Is(err, driver.ErrPreCreditMissing) {
		t.Errorf("%v, want %v", err, driver.ErrPreCreditMissing)
	}
	if got, err := driver.ReadPreCredit(c); got != plan || err != nil {
		t.Errorf("%+v (%v), want %+v", got, err, plan)
	}
	if s, err := driver.ReadSenders(c); len(s.List) != 0 || err != nil {
		t.Errorf("%+v, %v", s, err)
	}
}
