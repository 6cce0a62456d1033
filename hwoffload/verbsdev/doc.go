// SPDX-License-Identifier: Apache-2.0

// Package verbsdev makes a card a verbs.Device, so that programs written for package verbs run on a
// card (S2.2 to S2.4): a BAR, a simulator, or the model of package card. It is a layer over package
// queue, which drives the queues.
//
// # Memory
//
// A card accesses its own memory only (S2.1). RegMR of memory of this process fails with an error
// that wraps errors.ErrUnsupported: a copy behind the program's back could not be right for one-sided
// operations, whose time the program does not learn. The PD implements verbs.DeviceMemory instead:
// AllocDM reserves card memory, interleaved over the banks, and the program reads and writes it by
// ReadAt and WriteAt through the DDR window. verbs.NewMemory makes memory on this and on every other
// device. Rings and memory of regions come from the card's Allocator, the one owner of the DDR.
//
// A WriteAt whose start or end is not a multiple of 8 writes the rest of that word back (see
// hwoffload.DDR), so peers must not write there at the same time.
//
// # Completions and events
//
// Poll, and Wait, read registers: Wait polls, at first every 20 us and less often the longer it lasts,
// at most every millisecond. RequestNotify arms the queue, and a goroutine of the Device handles
// the card's interrupts (block interrupts): it signals Notify and the eventfd, and sends events. A
// backend with an interrupt line wakes it (Interrupter); for any other one, it reads the register
// causes every 200 us.
//
// # Limits
//
// A Device does not follow links and addresses: it sends no event about ports or GIDs, and never
// EventDeviceFatal before an access to the card has failed.
package verbsdev
