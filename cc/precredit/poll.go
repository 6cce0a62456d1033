// SPDX-License-Identifier: Apache-2.0

package precredit

// Arrivals is a flow's place in the receiver's polling queue. The zero value is a
// flow of which nothing has arrived.
type Arrivals struct {
	// Data is the caller's own.
	Data any

	weight  uint32
	served  uint32 // bytes since the weight was last lowered
	turn    int64  // bytes that it may still have in this turn
	packets []uint32
	head    int
	next    *Arrivals
	queued  bool
}

// Weight is the flow's weight now, 0 before its first packet.
func (a *Arrivals) Weight() uint32 { return a.weight }

// Poll is the receiver's polling queue of S5.6. It serves flows in turn, and a turn
// serves packets for as many quanta as the flow's weight. Weights start equal and are
// lowered by one for every WeightDecayBytes bytes served, down to one: so a flow that begins, a
// small one above all, has the larger part, and no flow is ever without any.
//
// The engine uses only Turn, as the service quantum of its queue pairs. Only tests use Push and
// Pop.
type Poll struct {
	// Weight is the initial weight, Quantum the bytes of a turn for each unit of
	// it, WeightDecayBytes the bytes that cost one unit. 0 = the defaults. Set them before
	// the first packet.
	Weight, Quantum, WeightDecayBytes uint32

	last *Arrivals // last entry in the ring of flows with packets; its next is the first
	size int
}

// Defaults of the polling queue: after 64 KiB all are alike.
const (
	DefaultWeight           = 8
	DefaultQuantum          = 4096
	DefaultWeightDecayBytes = 9363 // 7 units for 64 KiB
)

// leastCost is what a packet costs at least: those without payload are not free.
const leastCost = 64

func or(v, otherwise uint32) uint32 {
	if v != 0 {
		return v
	}
	return otherwise
}

// Len is how many flows have packets waiting.
func (p *Poll) Len() int { return p.size }

// Turn is how many bytes a turn serves of a flow of which so many were served before: for
// schedulers that have queues of their own.
func (p *Poll) Turn(served uint64) uint32 {
	weight := uint64(or(p.Weight, DefaultWeight))
	weight -= min(served/uint64(or(p.WeightDecayBytes, DefaultWeightDecayBytes)), weight-1)
	return uint32(weight) * or(p.Quantum, DefaultQuantum)
}

// Bound is the most bytes of others that are served between two packets of a flow
// while it has some waiting, if n flows have: a turn of each at full weight, and what
// a packet of at most longest bytes overdraws.
func (p *Poll) Bound(n int, longest uint32) int64 {
	return int64(max(n-1, 0)) * (int64(or(p.Weight, DefaultWeight))*int64(or(p.Quantum, DefaultQuantum)) + int64(longest))
}

// Push queues a packet of n bytes that arrived for a flow. Packets of one flow keep
// their order.
func (p *Poll) Push(a *Arrivals, n uint32) {
	if a.weight == 0 {
		a.weight = or(p.Weight, DefaultWeight)
	}
	a.packets = append(a.packets, n)
	if a.queued {
		return
	}
	a.queued = true
	a.turn = 0
	p.size++
	if p.last == nil {
		a.next = a
	} else {
		a.next = p.last.next
		p.last.next = a
	}
	p.last = a
}

// Pop is the next packet to serve; a is nil if there is none.
func (p *Poll) Pop() (a *Arrivals, n uint32) {
	if p.last == nil {
		return nil, 0
	}
	a = p.last.next
	if a.turn <= 0 { // its turn begins; it pays for what it overdrew
		a.turn = max(a.turn+int64(a.weight)*int64(or(p.Quantum, DefaultQuantum)), 1)
	}
	n = a.packets[a.head]
	a.head++
	a.turn -= int64(max(n, leastCost))
	p.lower(a, n)
	switch {
	case a.head == len(a.packets):
		a.packets, a.head = a.packets[:0], 0
		a.queued = false
		p.remove(a)
	case a.turn <= 0:
		if a.head >= 64 && a.head*2 > len(a.packets) {
			a.packets = a.packets[:copy(a.packets, a.packets[a.head:])]
			a.head = 0
		}
		p.last = a
	}
	return a, n
}

// lower takes weight off a flow that was served.
func (p *Poll) lower(a *Arrivals, n uint32) {
	if a.weight == 1 {
		return
	}
	fade := or(p.WeightDecayBytes, DefaultWeightDecayBytes)
	a.served += n
	for a.served >= fade && a.weight > 1 {
		a.served -= fade
		a.weight--
	}
}

// remove takes the first flow out of the ring.
func (p *Poll) remove(a *Arrivals) {
	p.size--
	if p.last == a {
		p.last = nil
	} else {
		p.last.next = a.next
	}
	a.next = nil
}
