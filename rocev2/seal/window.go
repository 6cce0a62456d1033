// SPDX-License-Identifier: Apache-2.0

package seal

const (
	ringWords = 128 // a power of two
	wordBits  = 64

	// Window is how far a packet may arrive behind later ones and is still accepted, in packets
	// of one direction of a queue pair. Paths of a queue pair may differ by the time in which
	// the sender sends as many: at 100 Gbit/s 2.7 ms with a PMTU of 4096 bytes, 0.7 ms with 1024.
	// A packet behind the window is lost for the transport, which sends it again as a new packet.
	Window = (ringWords - 1) * wordBits
)

// window is the replay window of one epoch (RFC 4303 section 3.4.3) as the ring of words of
// RFC 6479: it moves by clearing words and never shifts. One word more than the window is
// needed, so that the word in which the highest counter lies has all its bits.
type window struct {
	highest uint64
	ring    [ringWords]uint64
}

// check reports whether a counter may be accepted. It changes nothing, as the packet is not yet
// authenticated.
func (w *window) check(counter uint64) error {
	switch {
	case counter == 0: // no Sealer sends it
		return ErrOld
	case counter > w.highest:
		return nil
	case w.highest-counter >= Window:
		return ErrOld
	case w.ring[counter/wordBits%ringWords]&(1<<(counter%wordBits)) != 0:
		return ErrReplay
	}
	return nil
}

// accept marks a counter that check has allowed.
func (w *window) accept(counter uint64) {
	if counter > w.highest {
		from, to := w.highest/wordBits, counter/wordBits
		for i := range min(to-from, ringWords) {
			w.ring[(from+1+i)%ringWords] = 0
		}
		w.highest = counter
	}
	w.ring[counter/wordBits%ringWords] |= 1 << (counter % wordBits)
}
