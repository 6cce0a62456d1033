// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Link is what a pair of queue pairs is made for. Cases with the same Link share a pair.
type Link struct {
	Service verbs.QPType
	PMTU    rocev2.PMTU
	V6      bool
	SRQ     bool   // receive from shared receive queues
	Netem   string // what happens to packets both ways, in the words of tc-netem(8); empty: nothing
}

// Case is one line of the table: Count messages of Size bytes outstanding at the same time.
type Case struct {
	Link
	Op    verbs.Op
	Size  int // bytes of a message
	Count int
	FromB bool // side B is the requester, else A
}

// Name reads like "rc/write/4097/pmtu1024/v4/a-b".
func (c Case) Name() string {
	family, dir, srq, netem := "v4", "a-b", "", ""
	if c.V6 {
		family = "v6"
	}
	if c.FromB {
		dir = "b-a"
	}
	if c.SRQ {
		srq = "/srq"
	}
	if c.Netem != "" {
		netem = "/" + c.Netem
	}
	return fmt.Sprintf("%s/%s/%dx%d/pmtu%d/%s/%s%s%s", lower(c.Service), opNames[c.Op], c.Count, c.Size, c.PMTU.Bytes(), family, dir, srq, netem)
}

// The dimensions of the table.
var (
	PMTUs = []rocev2.PMTU{rocev2.PMTU256, rocev2.PMTU512, rocev2.PMTU1024, rocev2.PMTU2048, rocev2.PMTU4096}
	// Netems are the impairments, milder first. What is late by a millisecond is overtaken.
	Netems = []string{
		"loss 1%", "loss 5%", "duplicate 5%", "delay 1ms reorder 95%", "loss 1% duplicate 1% delay 1ms reorder 98%",
	}
	rcOps = []verbs.Op{
		verbs.OpSend, verbs.OpSendImm, verbs.OpSendInv, verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead,
		verbs.OpCompareSwap, verbs.OpFetchAdd, verbs.OpBindWindow, verbs.OpLocalInv,
	}
	ucOps = []verbs.Op{verbs.OpSend, verbs.OpSendImm, verbs.OpWrite, verbs.OpWriteImm}
	udOps = []verbs.Op{verbs.OpSend, verbs.OpSendImm}
)

// MaxSize is the longest message of the table.
const MaxSize = 1 << 20

// sizes are lengths around packet boundaries, with and without pad bytes, and none at all.
func sizes(s verbs.QPType, mtu rocev2.PMTU) []int {
	pmtu := mtu.Bytes()
	if s == verbs.UD {
		return []int{0, 1, 2, 63, pmtu - 1, pmtu}
	}
	all := []int{0, 1, 3, 8, 63, pmtu - 1, pmtu, pmtu + 1, 2 * pmtu, 3*pmtu + 5, 8191, 65536, MaxSize - 3, MaxSize}
	slices.Sort(all)
	return slices.Compact(all)
}

func atomic(op verbs.Op) bool { return op == verbs.OpCompareSwap || op == verbs.OpFetchAdd }

// sized reports whether an operation moves as many bytes as it is told to.
func sized(op verbs.Op) bool { return !atomic(op) && op != verbs.OpLocalInv }

// Cases is the whole table. It is ordered so that links change as seldom as may be.
func Cases() []Case {
	var all []Case
	have := map[Case]bool{} // operations without a size come up with every size
	add := func(l Link, ops []verbs.Op, sizes []int, count int) {
		for _, op := range ops {
			for _, size := range sizes {
				if op == verbs.OpBindWindow && size == 0 { // a window of no bytes is another matter
					continue
				}
				for _, fromB := range []bool{false, true} {
					c := Case{Link: l, Op: op, Size: size, Count: count, FromB: fromB}
					if !sized(op) {
						c.Size = 8
					}
					if !have[c] {
						have[c] = true
						all = append(all, c)
					}
				}
			}
		}
	}
	for _, v6 := range []bool{false, true} {
		for _, pmtu := range PMTUs {
			rc := Link{Service: verbs.RC, PMTU: pmtu, V6: v6}
			add(rc, rcOps, sizes(verbs.RC, pmtu), 1)
			add(rc, rcOps, []int{2*pmtu.Bytes() + 1}, 16)
			srq := rc
			srq.SRQ = true
			add(srq, []verbs.Op{verbs.OpSend, verbs.OpSendImm, verbs.OpSendInv, verbs.OpWriteImm}, []int{1, 3*pmtu.Bytes() + 5}, 4)
			add(Link{Service: verbs.UC, PMTU: pmtu, V6: v6}, ucOps, sizes(verbs.UC, pmtu), 1)
			add(Link{Service: verbs.UD, PMTU: pmtu, V6: v6}, udOps, sizes(verbs.UD, pmtu), 1)
		}
	}
	for _, netem := range Netems {
		for _, l := range []Link{{PMTU: rocev2.PMTU256}, {PMTU: rocev2.PMTU1024, V6: true}, {PMTU: rocev2.PMTU4096}} {
			l.Service, l.Netem = verbs.RC, netem
			add(l, rcOps, []int{1, 8191}, 8)
			if l.PMTU > rocev2.PMTU256 { // go-back-N takes minutes for thousands of packets
				add(l, rcOps, []int{65536}, 8)
			}
		}
		long := Link{Service: verbs.RC, PMTU: rocev2.PMTU4096, V6: true, Netem: netem}
		add(long, []verbs.Op{verbs.OpSend, verbs.OpWrite, verbs.OpRead}, []int{MaxSize}, 1)
	}
	return all
}

// QuickCases is the part of the table that CI has time for: every service, operation, PMTU,
// family and direction, though not all at once.
func QuickCases() []Case {
	var quick []Case
	for _, c := range Cases() {
		row, pmtu := slices.Index(PMTUs, c.PMTU), c.PMTU.Bytes()
		// One family and one direction for each PMTU and operation, every other of them.
		turn := (row + int(c.Op-verbs.OpSend)) % 2
		switch {
		case c.Netem != "":
			if c.Netem != Netems[len(Netems)-1] && c.Netem != "loss 1%" || pmtu == 256 || c.Size > 8191 || c.FromB == (turn == 0) {
				continue
			}
		case c.V6 != (row%2 == 1) || c.FromB != (turn == 1):
			continue
		case c.Count == 1 && c.Service != verbs.UD && !slices.Contains([]int{1, 8, pmtu, 3*pmtu + 5, MaxSize - 3}, c.Size):
			continue
		case c.Size > 1<<19 && pmtu != 1024 && pmtu != 4096:
			continue
		case c.Service == verbs.UD && c.Size != 1 && c.Size != pmtu:
			continue
		}
		quick = append(quick, c)
	}
	return quick
}
