// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
)

// OwnAddresses are the maps own_addresses and own_state of an attachment: the unicast addresses of
// this host. Packets to and from other addresses pass untouched.
type OwnAddresses struct {
	table *ebpf.Map // nil: attached by an earlier version
	words *bpf.OwnWords
	mem   []byte

	numbers map[netip.Addr]uint16
}

// OwnAddresses opens the maps, with the addresses that an earlier agent has left. An attachment of
// an earlier version has no such maps until it is upgraded: then the addresses are only kept here.
func (a *Attachment) OwnAddresses() (*OwnAddresses, error) {
	x := &OwnAddresses{words: &bpf.OwnWords{}, numbers: map[netip.Addr]uint16{}}
	if a.Maps.OwnAddresses == nil || a.Maps.OwnState == nil {
		return x, nil
	}
	mem, err := mapMemory(a.Maps.OwnState)
	if err != nil {
		return nil, fmt.Errorf("own_state: %w", err)
	}
	x.table, x.words, x.mem = a.Maps.OwnAddresses, bpf.OwnStateOf(mem), mem
	var key bpf.DestKey
	var number uint32
	for it := x.table.Iterate(); it.Next(&key, &number); {
		x.numbers[bpf.AddrOf(key)] = uint16(number)
	}
	return x, nil
}

// Close unmaps the memory. The data plane keeps the addresses.
func (x *OwnAddresses) Close() error {
	if x.mem == nil {
		return nil
	}
	return unix.Munmap(x.mem)
}

// Has reports whether an address is this host's.
func (x *OwnAddresses) Has(a netip.Addr) bool { return x.numbers[a.Unmap()] != 0 }

// ByNumber returns the address with a number of DestRegs.RxOwn; false if there is none.
func (x *OwnAddresses) ByNumber(number uint16) (netip.Addr, bool) {
	return x.find(func(_ netip.Addr, n uint16) bool { return number != 0 && n == number })
}

// ByWord returns the address with a word of bpf.OwnWord; false if there is none.
func (x *OwnAddresses) ByWord(word uint64) (netip.Addr, bool) {
	return x.find(func(a netip.Addr, _ uint16) bool { return word != 0 && bpf.OwnWord(a) == word })
}

func (x *OwnAddresses) find(match func(netip.Addr, uint16) bool) (netip.Addr, bool) {
	for a, n := range x.numbers {
		if match(a, n) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// Set replaces the addresses. The first IPv4 and the first IPv6 address are those that the data
// plane finds without a lookup. An address that stays keeps its number, unless it becomes or was
// one of the first. A new address is there before an old one is removed.
func (x *OwnAddresses) Set(all []netip.Addr) error {
	numbers, used := x.assign(all)
	for a, n := range numbers {
		if x.numbers[a] == n {
			continue
		}
		if x.table != nil {
			if err := x.table.Update(bpf.KeyOf(a), uint32(n), ebpf.UpdateAny); err != nil {
				return fmt.Errorf("own address %s: %w", a, err)
			}
		}
	}
	x.setFirst(used)
	atomic.StoreUint32(&x.words.Known, 1)
	for a := range x.numbers {
		if numbers[a] == 0 && x.table != nil {
			_ = x.table.Delete(bpf.KeyOf(a)) // it is gone already
		}
	}
	x.numbers = numbers
	return nil
}

// assign numbers the addresses. used has the address of each number.
func (x *OwnAddresses) assign(all []netip.Addr) (numbers map[netip.Addr]uint16, used map[uint16]netip.Addr) {
	numbers, used = make(map[netip.Addr]uint16, len(all)), make(map[uint16]netip.Addr, len(all))
	give := func(a netip.Addr, n uint16) {
		if numbers[a] == 0 && n != 0 && !used[n].IsValid() {
			numbers[a], used[n] = n, a
		}
	}
	plain := make([]netip.Addr, len(all))
	for i, a := range all {
		plain[i] = a.Unmap().WithZone("")
		if plain[i].Is4() {
			give(plain[i], bpf.OwnFirst4)
		} else {
			give(plain[i], bpf.OwnFirst6)
		}
	}
	for _, a := range plain {
		if n := x.numbers[a]; n >= bpf.OwnOthers {
			give(a, n)
		}
	}
	next := bpf.OwnOthers
	for _, a := range plain {
		for numbers[a] == 0 && next != 0 { // 0: all 65 000 are used
			give(a, next)
			next++
		}
	}
	return numbers, used
}

// setFirst writes the addresses that need no lookup.
func (x *OwnAddresses) setFirst(used map[uint16]netip.Addr) {
	x.words.First4, x.words.First6 = 0, [2]uint64{}
	if a, ok := used[bpf.OwnFirst4]; ok {
		x.words.First4 = uint32(bpf.OwnWord(a))
	}
	if a, ok := used[bpf.OwnFirst6]; ok {
		x.words.First6 = bpf.OwnHalves(a)
	}
}
