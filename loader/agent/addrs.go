// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
)

// addrWatch reports that addresses of the network namespace may have changed.
type addrWatch struct {
	// changes gets a value after each subscription and after changes. It is closed when the kernel
	// has dropped reports (ENOBUFS); subscribe starts again then.
	changes chan struct{}
	done    chan struct{} // nil = there is no subscription
}

// watchAddrs watches the network namespace of the calling thread.
func watchAddrs() (*addrWatch, error) {
	w := &addrWatch{}
	return w, w.subscribe()
}

// subscribe replaces the subscription.
func (w *addrWatch) subscribe() error {
	w.close()
	updates := make(chan netlink.AddrUpdate, 64)
	w.changes, w.done = make(chan struct{}, 1), make(chan struct{})
	if err := netlink.AddrSubscribe(updates, w.done); err != nil {
		return fmt.Errorf("watch the addresses: %w", err)
	}
	w.changes <- struct{}{}
	go forwardAddrs(updates, w.changes)
	return nil
}

// forwardAddrs makes one report of all changes that the reader has not seen.
func forwardAddrs(updates <-chan netlink.AddrUpdate, changes chan<- struct{}) {
	defer close(changes)
	for range updates {
		select {
		case changes <- struct{}{}:
		default:
		}
	}
}

// close ends the subscription.
func (w *addrWatch) close() {
	if w.done != nil {
		close(w.done)
		w.done = nil
	}
}

// openOwn opens the list of this host's addresses and fills it.
func (a *Agent) openOwn() (err error) {
	if a.own, err = a.att.OwnAddresses(); err != nil {
		return err
	}
	if err := a.updateOwn(); err != nil {
		return err
	}
	a.adoptSources(loader.Monotonic())
	return nil
}

// readOwn updates the list of this host's addresses.
func (a *Agent) readOwn() {
	if err := a.updateOwn(); err != nil {
		a.log.Warn("the list of this host's addresses is old", "err", err)
	}
}

func (a *Agent) updateOwn() error {
	all, err := ownAddresses(a.iface.Index)
	if err != nil {
		return err
	}
	if err := a.own.Set(all); err != nil {
		return err
	}
	a.removeSources(func(_ bpf.DestKey, own netip.Addr) bool { return !a.own.Has(own) })
	return nil
}

// ownAddr returns the address of this host with a word (bpf.OwnWord), or zero. An address that is
// not in the list may be new.
func (a *Agent) ownAddr(word uint64) netip.Addr {
	own, ok := a.own.ByWord(word)
	if !ok && word != 0 {
		a.readOwn()
		own, _ = a.own.ByWord(word)
	}
	return own
}

// ownAddresses lists the unicast addresses of the network namespace, without those of loopback: first
// those of an interface, then those of others, such as its VLANs and its bridge, then link-local ones.
func ownAddresses(ifindex int) ([]netip.Addr, error) {
	list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list the addresses: %w", err)
	}
	slices.SortStableFunc(list, func(x, y netlink.Addr) int { return rank(&x, ifindex) - rank(&y, ifindex) })
	var all []netip.Addr
	for i := range list {
		a, ok := netip.AddrFromSlice(list[i].IP)
		if a = a.Unmap(); ok && !a.IsLoopback() {
			all = append(all, a)
		}
	}
	return all, nil
}

// rank orders addresses: of the interface, of others, link-local.
func rank(a *netlink.Addr, ifindex int) int {
	switch {
	case a.IP.IsLinkLocalUnicast():
		return 2
	case a.LinkIndex != ifindex:
		return 1
	}
	return 0
}
