// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"net"
	"os"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2"
)

// barFile writes a plain file that serves as the BAR of a card without logic: registers have
// their reset values, and the change that is named is made.
func barFile(ts *testscript.TestScript, neg bool, args []string) {
	size := int64(hwoffload.BARSize)
	m := card.New()
	ident := regs.IdentOf(m)
	version := ident.Version()
	if len(args) > 1 {
		switch args[1] {
		case "short":
			size /= 2
		case "future":
			version = version.WithMajor(version.Major() + 1)
		default:
			ts.Fatalf("usage: barfile FILE [short|future]")
		}
	}
	m.Put(regs.IdentVersionOffset, uint32(version))
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	ts.Check(f.Truncate(size))
	for b := range regs.Blocks {
		block := &regs.Blocks[b]
		if block.Base+block.Size() > 0x100000 {
			continue // tables, whose reset values are 0
		}
		for at := block.Base; at < block.Base+block.Size(); at += 4 {
			if v := m.R32(at); v != 0 {
				_, err := f.WriteAt(binary.LittleEndian.AppendUint32(nil, v), int64(at))
				ts.Check(err)
			}
		}
	}
}

// liveCard serves a card whose nodes 2 and up get data at the rates that the card has, and whose
// feedback arrives without a queue. With stop it ends.
func liveCard(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 2 && args[1] == "stop" {
		x, ok := liveCards.Load(ts.MkAbs(args[0]))
		if !ok {
			ts.Fatalf("no card at %s", args[0])
		}
		x.(*liveModel).stop()
		return
	}
	l, err := net.Listen("unix", ts.MkAbs(args[0]))
	ts.Check(err)
	x := &liveModel{m: card.NewAt(loader.Monotonic), l: l, end: make(chan struct{})}
	x.done.Go(func() { _ = hwoffload.Serve(l, x.m) })
	x.done.Go(x.traffic)
	ts.Defer(x.stop)
	liveCards.Store(ts.MkAbs(args[0]), x)
}

// liveCards has the cards by the paths of their sockets.
var liveCards sync.Map

type liveModel struct {
	m    *card.Model
	l    net.Listener
	end  chan struct{}
	once sync.Once
	done sync.WaitGroup
}

func (x *liveModel) stop() {
	x.once.Do(func() {
		close(x.end)
		x.l.Close()
		x.done.Wait()
	})
}

// traffic sends a packet a millisecond to each node that exists.
func (x *liveModel) traffic() {
	const token, delay = 5, 20_000
	for tick := time.NewTicker(time.Millisecond); ; {
		select {
		case <-x.end:
			tick.Stop()
			return
		case <-tick.C:
		}
		for node := 2; node <= 4; node++ {
			if !regs.NodesOf(x.m).Node(node - 1).Valid() {
				continue
			}
			d := regs.DestOf(x.m, node-1)
			d.SetRxToken(token)
			d.SetCapsWord(d.CapsWord().WithCaps(uint32(bpf.CapStamp)))
			d.SetTxPackets(d.TxPackets() + 1)
			d.SetTxBytes(d.TxBytes() + 4096)
			d.SetWinPaced(d.WinPaced() + 1)
			now := loader.Monotonic()
			d.SetLastTxNs(now)
			x.m.Receive(node, &card.Packet{Bytes: 48, Feedback: true, Stamp: rocev2.Stamp{
				Flags: rocev2.StampT1 | rocev2.StampEcho, Token: token, T1: now - delay, EchoT1: now - 2*delay, EchoT2: now - delay}}, now)
		}
	}
}
