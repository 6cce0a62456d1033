// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A soak must notice that one kind of traffic fails while the others are transferred. So visits are counted by kind and by
// the server's host, and clients visit all of them in turn (deck).

// SoakTraffic is what has become of the visits of a kind, or of datagrams received.
type SoakTraffic struct {
	Succeeded, Failed uint64
	LastSuccess       int64  // when the latest visit that succeeded began, CLOCK_MONOTONIC in ns
	LastFailure       int64  // when the latest visit that failed began
	Failure           string // error of this visit
}

// Transports of visits.
const (
	plainVisit = iota
	sealedVisit
	disorderedVisit
	datagramVisit
	transports
)

var transportNames = [transports]string{"RC", "encrypted RC", "out-of-order RC", "UD"}

// soakVisit is a kind of visit.
type soakVisit struct {
	transport int
	v6        bool
	host      int  // host of the server
	spare     bool // to the second address of the host, which exists at times only
}

// toHost is between the kind of a visit and the number of its host.
const toHost = " to host "

func family(v6 bool) string {
	if v6 {
		return "IPv6"
	}
	return "IPv4"
}

// String is the kind without the host for visits whose success is not expected.
func (v soakVisit) String() string {
	if v.spare {
		return transportNames[v.transport] + " over " + family(v.v6) + spareVisits
	}
	return fmt.Sprintf("%s over %s%s%d", transportNames[v.transport], family(v.v6), toHost, v.host+1)
}

// spareVisits are visits to second addresses. They fail while no event has added the address.
const spareVisits = " to a second address"

// datagramsReceived is what a server counts UD messages by.
func datagramsReceived(v6 bool) string { return "UD messages received over " + family(v6) }

// allVisits are the kinds of visits that succeed in a network without faults.
func allVisits(hosts int) (all []soakVisit) {
	for host := range hosts {
		for transport := range transports {
			for _, v6 := range []bool{false, true} {
				all = append(all, soakVisit{transport: transport, v6: v6, host: host})
			}
		}
	}
	return all
}

// deck returns the kinds of visits of a client in random order, and all of them before one comes again. One more visit is
// to the second address of a host.
type deck struct {
	mu    sync.Mutex
	rand  *rand.Rand
	hosts int
	left  []soakVisit
}

func (d *deck) draw() soakVisit {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.left) == 0 {
		d.left = allVisits(d.hosts)
		d.left = append(d.left, soakVisit{transport: d.rand.IntN(transports), host: d.rand.IntN(d.hosts), spare: true})
		d.rand.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	v := d.left[len(d.left)-1]
	d.left = d.left[:len(d.left)-1]
	return v
}

// peer is the address that a visit is made to.
func (t *soakTask) peer(v soakVisit) netip.Addr {
	switch {
	case v.spare:
		return t.Spare[v.host]
	case v.v6:
		return t.Peers[2*v.host+1]
	}
	return t.Peers[2*v.host]
}

// monotonic is a time that is the same in all processes.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // there is no such kernel
	}
	return t.Nano()
}

// recordTraffic counts a visit that has ended, or a message received. The end of a device is a failure here, too.
func (d *SoakProgress) recordTraffic(kind string, began int64, err error) {
	if d.Traffic == nil {
		d.Traffic = map[string]SoakTraffic{}
	}
	t := d.Traffic[kind]
	if err == nil {
		t.Succeeded++
		t.LastSuccess = max(t.LastSuccess, began)
	} else {
		t.Failed++
		if began >= t.LastFailure {
			t.LastFailure, t.Failure = began, err.Error()
		}
	}
	d.Traffic[kind] = t
}

// addTraffic adds the counts of a program to those of a period by kind, without hosts.
func (d *SoakProgress) addTraffic(of map[string]SoakTraffic) {
	if d.Traffic == nil {
		d.Traffic = map[string]SoakTraffic{}
	}
	for name, t := range of {
		kind, _, _ := strings.Cut(name, toHost)
		sum := d.Traffic[kind]
		sum.Succeeded += t.Succeeded
		sum.Failed += t.Failed
		d.Traffic[kind] = sum
	}
}

// missingTraffic returns what the clients or the server of a host have not succeeded with since a time.
func missingTraffic(kind string, hosts int, since int64, of []SoakProgress) (missing []string) {
	var wanted []string
	switch kind {
	case soakClient:
		for _, v := range allVisits(hosts) {
			wanted = append(wanted, v.String())
		}
	case soakServer:
		wanted = []string{datagramsReceived(false), datagramsReceived(true)}
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(of, func(d SoakProgress) bool { return d.Traffic[name].LastSuccess > since }) {
			missing = append(missing, name)
		}
	}
	return missing
}

// failedTraffic returns the visits of a program that have failed although they began after a time. Visits to second
// addresses may fail.
func failedTraffic(since int64, d SoakProgress) (failed []string) {
	for _, name := range slices.Sorted(maps.Keys(d.Traffic)) {
		t := d.Traffic[name]
		if t.LastFailure > since && !strings.HasSuffix(name, spareVisits) {
			failed = append(failed, name+": "+t.Failure)
		}
	}
	return failed
}

// visitEnded counts a visit. It returns whether the device serves further ones.
func (p *soakProgram) visitEnded(v soakVisit, began int64, err error) bool {
	p.add(func(d *SoakProgress) {
		d.recordTraffic(v.String(), began, err)
		if err == nil {
			d.Visits++
		}
	})
	if errors.Is(err, verbs.ErrGone) {
		return false
	}
	if err != nil {
		p.fail(err)
	}
	return true
}
