// SPDX-License-Identifier: Apache-2.0

// Package driver drives a card by its registers and its DDR window: the data path (Open), the
// destination table (NewTable) and pre-credit (EnablePreCredit). Internal to this project. It works
// with each hwoffload.Device: a PCI BAR, a simulator, and the model of package card.
//
// A Device is a verbs.Device, so programs written for package verbs run on a card (S2.2 to S2.4).
// In addition to the calls of package verbs it has calls for what only a card has: regions at
// addresses of the DDR (S2.6), distribution groups (S2.7), compute tasks (S1.1, S1.7), ports, nodes.
//
// # Memory
//
// A card accesses its own memory only (S2.1). RegMR of memory of this process fails with an error
// that wraps errors.ErrUnsupported: a copy behind the program's back could not be right for one-sided
// operations, whose time the program does not learn. The PD implements verbs.DeviceMemory instead:
// AllocDM reserves card memory, interleaved over the banks, and the program reads and writes it by
// ReadAt and WriteAt through the DDR window. verbs.NewMemory makes memory on this and on every other
// device. Rings and memory of regions come from the card's Allocator, the one owner of the DDR.
// RegMR of the Device registers a range of the DDR, which the CPU fills and reads through
// hwoffload.DDR.
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
// causes every 200 us. A Device of New has no such goroutine.
//
// # Limits
//
// A Device is for one process. All methods of a Device and its objects may be called concurrently.
// A Table is for one goroutine.
//
// A Device does not follow links and addresses: it sends no event about ports or GIDs, and never
// EventDeviceFatal before an access to the card has failed.
package driver
