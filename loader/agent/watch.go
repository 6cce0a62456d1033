// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/inspect"
	"github.com/softroce/softroce-xdp/loader/pacer"
)

const (
	// watchPeriod is the time between two looks at the interface.
	watchPeriod = time.Second
	// watchShare: the qdiscs are read for at most 1/watchShare of the time. A look at many classes
	// takes long.
	watchShare = 500
	// repairsPerHour is how often the agent repairs the same thing in an hour. Somebody who removes
	// it more often does so on purpose.
	repairsPerHour = 3
	// repairAgain is the time until the next attempt after a repair has failed.
	repairAgain = 10 * time.Second
	// sampleTime is the time between two samples of the counters.
	sampleTime = time.Minute
	// refusedTime is how long a control packet that the kernel has refused counts as present.
	refusedTime = time.Minute
)

// watch compares what is in force on the interface with what attach has set up (package inspect),
// repairs what is missing, and reports the rest to status. Times are monotonic ns.
type watch struct {
	next    uint64 // time of the next look
	repairs map[inspect.Kind]*repairs

	qdisc     pacer.Condition
	qdiscNext uint64 // time of the next reading of the qdiscs

	refused   error // error of the last control packet, nil = it was sent
	refusedAt uint64

	counters   map[string]uint64 // the last sample
	countersAt uint64
	report     inspect.Report
	written    bool     // the file has the counters and repairs of the report, and its findings
	reserve    *os.File // closed while the report is written, which needs a descriptor
}

// repairs are the repairs of one kind.
type repairs struct {
	done   []uint64 // times of those in the last hour
	after  uint64   // no attempt before this
	failed error    // error of the last attempt
}

// due reports whether one may be made now.
func (r *repairs) due(now uint64) bool {
	for len(r.done) > 0 && now-r.done[0] > uint64(time.Hour) {
		r.done = r.done[1:]
	}
	return len(r.done) < repairsPerHour && now >= r.after
}

// note records an attempt.
func (r *repairs) note(err error, now uint64) {
	if r.failed = err; err != nil {
		r.after = now + uint64(repairAgain)
		return
	}
	r.done = append(r.done, now)
}

// String describes why something is not repaired, "" if it will be.
func (r *repairs) String() string {
	switch {
	case r.failed != nil:
		return fmt.Sprintf("the agent could not: %v", r.failed)
	case len(r.done) >= repairsPerHour:
		return fmt.Sprintf("the agent has done so %d times within an hour, and does not again", repairsPerHour)
	}
	return ""
}

// look makes a look at the interface if it is time to.
func (w *watch) look(a *Agent, now uint64) {
	if now < w.next {
		return
	}
	w.next = now + uint64(watchPeriod)
	found := w.compare(a, now)
	if w.repairAll(a, found, now) {
		w.qdiscNext = 0
		found = w.compare(a, now)
	}
	for i := range found {
		if r := w.repairs[found[i].Kind]; r != nil && found[i].Repairable {
			found[i].Note = r.String()
		}
	}
	w.sample(a, now)
	w.publish(a, found)
}

// compare reads what is in force.
func (w *watch) compare(a *Agent, now uint64) []inspect.Finding {
	f := inspect.Read(a.att, a.iface.Name)
	if now >= w.qdiscNext {
		start := loader.Clock(unix.CLOCK_THREAD_CPUTIME_ID)
		q, err := a.pacer.Check()
		if err != nil {
			f.Errors = append(f.Errors, err)
		}
		w.qdisc = q
		w.qdiscNext = now + watchShare*(loader.Clock(unix.CLOCK_THREAD_CPUTIME_ID)-start)
	}
	f.Qdisc = w.qdisc
	found := inspect.Compare(f)
	if err := a.loop.PacerError(now); err != nil {
		found = append(found, inspect.Finding{Kind: inspect.Pacer, Text: fmt.Sprintf("the kernel refuses what the pacer needs (%v): packets leave unpaced or at old rates", err)})
	}
	if err := w.refused; err != nil && now-w.refusedAt < uint64(refusedTime) {
		found = append(found, inspect.Finding{Kind: inspect.Hello, Text: fmt.Sprintf("control packets cannot be sent (%v): no new peer is stamped; see the limits of the agent and the packet filter of this host", err)})
	}
	return found
}

// repairAll repairs what is missing, and reports whether it has changed anything.
func (w *watch) repairAll(a *Agent, found []inspect.Finding, now uint64) (changed bool) {
	for _, f := range found {
		if !f.Repairable {
			continue
		}
		r := w.repairs[f.Kind]
		if r == nil {
			if w.repairs == nil {
				w.repairs = map[inspect.Kind]*repairs{}
			}
			r = &repairs{}
			w.repairs[f.Kind] = r
		}
		if !r.due(now) {
			continue
		}
		err := a.repair(f.Kind)
		r.note(err, now)
		if err != nil {
			a.log.Warn("repair failed", "kind", f.Kind, "was", f.Text, "err", err)
			continue
		}
		a.log.Warn("repaired", "kind", f.Kind, "was", f.Text)
		if w.report.Repairs == nil {
			w.report.Repairs = map[inspect.Kind]int{}
		}
		w.report.Repairs[f.Kind]++
		w.written = false
		changed = true
	}
	return changed
}

// repair creates again what somebody has removed.
func (a *Agent) repair(k inspect.Kind) error {
	switch k {
	case inspect.Ingress:
		return a.att.RepairIngress()
	case inspect.Egress:
		return a.att.RepairEgress()
	case inspect.Qdisc, inspect.Classes:
		return a.pacer.Repair()
	case inspect.Pins:
		return a.att.RepairPins()
	case inspect.State:
		return a.att.RepairState()
	}
	return fmt.Errorf("no repair of %s", k)
}

// sample records the counters that status judges by their growth.
func (w *watch) sample(a *Agent, now uint64) {
	if w.counters != nil && now-w.countersAt < uint64(sampleTime) {
		return
	}
	stats, err := a.att.Stats()
	if err != nil {
		return
	}
	counters := map[string]uint64{}
	for _, s := range stats {
		if inspect.Judged(s.Name) {
			counters[s.Name] = s.Count
		}
	}
	was := w.report.Counters
	if w.report.Counters = w.counters; w.counters == nil {
		w.report.Counters = counters
	}
	w.counters, w.countersAt = counters, now
	if !maps.Equal(was, w.report.Counters) {
		w.written = false
	}
}

// publish writes the report if it has changed, or if somebody has removed it; else it confirms it.
func (w *watch) publish(a *Agent, found []inspect.Finding) {
	same := slices.Equal(w.report.Findings, found)
	w.report.Findings = found
	if same && w.written && a.att.TouchReport() == nil {
		return
	}
	b, err := json.Marshal(&w.report)
	if err != nil {
		return
	}
	if w.reserve != nil {
		w.reserve.Close()
	}
	err = a.att.WriteReport(b)
	w.reserve, _ = os.Open(os.DevNull)
	if err != nil && w.written {
		a.log.Warn("status does not get the report of this agent", "err", err)
	}
	w.written = err == nil
}

func (w *watch) close() {
	if w.reserve != nil {
		w.reserve.Close()
	}
}

// sendControl sends a control packet as rawSockets.send does, and records if the kernel refuses it
// for a reason that concerns all peers.
func (a *Agent) sendControl(src, peer netip.Addr, build packetBuilder) error {
	err := a.sockets.send(src, peer, build)
	a.watch.refused = nil
	for _, e := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.EPERM, unix.EACCES} {
		if errors.Is(err, e) {
			a.watch.refused, a.watch.refusedAt = err, loader.Monotonic()
		}
	}
	return err
}
