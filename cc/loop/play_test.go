// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

func peerN(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

func keyN(n byte) bpf.DestKey { return bpf.KeyOf(peerN(n)) }

// second is a second of the monotonic clock, in nanoseconds.
const second = uint64(time.Second)

// player simulates the data plane, the kernel stack and an engine for a loop, on virtual
// time. Data is sent at the rates of the registers, and arrives without a queue.
type player struct {
	l     *Loop
	now   uint64
	dests []*played
}

// played is one destination.
type played struct {
	regs          bpf.DestRegs
	key           bpf.DestKey
	stack, engine uint64 // bit/s that each of the two would send
	queue         int64  // ns that its packets wait in the network
	sent          [2]uint64
}

const (
	playTick = uint64(10 * time.Millisecond)
	playLink = uint64(100e6)
)

// play starts n idle destinations, which start at the rate initial.
func play(link, initial uint64, mode fourcase.Mode, n int) *player {
	params := fourcase.DefaultParams(link)
	params.Mode = mode
	cfg := &bpf.Config{Pacer: bpf.PacerEDT, Mtu: 1500, LinkRateBps: link, Policy: *bpf.ParamsFrom(&params)}
	p := &player{l: New(Options{Config: cfg, Log: slog.New(slog.DiscardHandler)}), now: 1000 * second}
	for i := range n {
		d := &played{key: keyN(byte(i + 1)), regs: bpf.DestRegs{RateBps: initial, StackRateBps: initial, EngineRateBps: initial}}
		d.regs.Policy.RateBps = initial
		p.dests = append(p.dests, d)
	}
	return p
}

// ticks lets time pass, with an evaluation at the end of each tick.
func (p *player) ticks(n int) {
	for range n {
		p.now += playTick
		var slots []bpf.AgentSlot
		var at []*played
		for _, d := range p.dests {
			if d.send(p.now) {
				slots, at = append(slots, bpf.AgentSlot{Key: d.key, Found: 1, Regs: d.regs}), append(at, d)
			}
		}
		params := *bpf.ParamsAs[fourcase.Params](&p.l.cfg.Policy)
		p.l.senders.begin(p.now)
		p.l.evaluateSlots(slots, &params, true, p.now, p.now)
		for i, d := range at {
			if slots[i].Op&bpf.SetPolicy != 0 {
				r := &slots[i].Regs
				d.regs.Policy, d.regs.Bound = r.Policy, r.Bound
				d.regs.RateBps, d.regs.StackRateBps, d.regs.EngineRateBps = r.RateBps, r.StackRateBps, r.EngineRateBps
			}
		}
		p.l.ShareOut(p.now)
	}
}

// send plays one tick and reports whether there was traffic.
func (d *played) send(now uint64) bool {
	r := &d.regs
	r.WinPaced, r.WinEnginePaced, r.WinEngine, r.NextTxNs = 0, 0, bpf.EngineSilent, now-uint64(time.Millisecond)
	d.sent[0], d.sent[1] = min(d.stack, r.StackRateBps), min(d.engine, r.EngineRateBps)
	if d.stack > r.StackRateBps {
		r.WinPaced, r.NextTxNs = 1, now+uint64(time.Millisecond)
	}
	if d.engine > 0 {
		r.WinEngine = bpf.EngineFree
	}
	if d.engine > r.EngineRateBps {
		r.WinPaced, r.WinEnginePaced, r.WinEngine = r.WinPaced+1, 1, bpf.EnginePaceBlocked
	}
	const size = 1000 // bytes of a frame
	packets := [2]uint64{d.sent[0] / 8 / 100 / size, d.sent[1] / 8 / 100 / size}
	r.EnginePackets += packets[1]
	r.EngineBytes += packets[1] * (size - etherLen)
	r.TxPackets += packets[0] + packets[1]
	r.TxBytes += (packets[0] + packets[1]) * (size - etherLen)
	r.WinSamples, r.WinTxNs, r.WinRxNs, r.WinRttNs = 8, 50_000+d.queue, 50_000, 100_000+d.queue
	return d.sent[0]+d.sent[1] > 0
}

// rates returns the rates of the destinations to which data is sent, and their sum.
func (p *player) rates() (each []uint64, sum uint64) {
	for _, d := range p.dests {
		if d.stack+d.engine > 0 {
			each, sum = append(each, d.regs.RateBps), sum+d.regs.RateBps
		}
	}
	return each, sum
}

// near reports that a rate is within 5 % of another.
func near(got, want uint64) bool { return max(got, want)-min(got, want) <= want/20 }

func (p *player) wantEach(t *testing.T, what string, want uint64) {
	t.Helper()
	each, _ := p.rates()
	for _, rate := range each {
		if !near(rate, want) {
			t.Errorf("%s: rates %d, want %d each", what, each, want)
			return
		}
	}
}
