// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
)

// An EngineSeat is the place of the one engine that an interface can have: the queue
// pair numbers that ingress steers, the AF_XDP sockets, and the word to peers that
// an engine is there. Methods may be called by any goroutine.
type EngineSeat struct {
	att  *Attachment
	cfg  *LiveConfig
	lock *lease
	sync *bpf.EngineSync

	mu     sync.Mutex
	qpns   map[uint32]struct{}
	queues map[uint32]struct{}
	closed bool
}

// TakeEngineSeat makes the caller the engine of an attached interface, which stays
// attached. What an engine that was killed has left is removed. The error wraps
// ErrEngineRunning if there is an engine, and names its process.
func (a *Attachment) TakeEngineSeat() (_ *EngineSeat, err error) {
	ifname := a.State.Interface
	if a.engineSync == nil {
		return nil, fmt.Errorf("%s was attached by a release without an engine: run `softroce-xdp upgrade %s`", ifname, ifname)
	}
	s := &EngineSeat{att: a, sync: bpf.NewEngineSync(a.engineSync), qpns: map[uint32]struct{}{}, queues: map[uint32]struct{}{}}
	// The agent holds the lock for a moment when it cleans up after a killed engine.
	for end := time.Now().Add(seatPatience); ; time.Sleep(time.Millisecond) {
		if s.lock, err = takeEngineLease(a.opts.RunDir, ifname); err == nil {
			break
		} else if time.Now().After(end) {
			return nil, err
		}
	}
	if !a.Alive() { // a detach was quicker
		s.lock.release()
		return nil, fmt.Errorf("%s: %w", ifname, ErrNotAttached)
	}
	if s.cfg, err = a.LiveConfig(); err != nil {
		s.lock.release()
		return nil, err
	}
	if err := clearSteering(a, s.cfg); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	setCaps(s.cfg, uint32(bpf.CapSACK), true)
	return s, nil
}

const seatPatience = 100 * time.Millisecond

// Config is the interface's configuration in memory. The engine only reads it.
func (s *EngineSeat) Config() *bpf.Config { return s.cfg.Config }

// Clock is the name of the clock of the stamps, monotonic or tai.
func (s *EngineSeat) Clock() string { return s.att.State.Clock }

// Register puts the AF_XDP socket of a receive queue into the XSKMAP.
func (s *EngineSeat) Register(queue, fd int) error {
	if err := s.att.Maps.Xsks.Put(uint32(queue), uint32(fd)); err != nil {
		return fmt.Errorf("%s: socket of queue %d: %w", s.att.State.Interface, queue, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[uint32(queue)] = struct{}{}
	return nil
}

// errSeatClosed is for what comes after Close: the configuration is not mapped any more.
var errSeatClosed = errors.New("the engine was closed")

// Steer has ingress hand packets for the queue pair to the sockets.
func (s *EngineSeat) Steer(qpn uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("%s: steer queue pair %#x: %w", s.att.State.Interface, qpn, errSeatClosed)
	}
	if err := s.att.Maps.SteerTable.Put(qpn, bpf.Steer{Queues: uint32(len(s.queues))}); err != nil {
		return fmt.Errorf("%s: steer queue pair %#x: %w", s.att.State.Interface, qpn, err)
	}
	s.qpns[qpn] = struct{}{}
	atomic.StoreUint32(&s.cfg.Steered, uint32(len(s.qpns)))
	return nil
}

// AnnounceCredit has HELLO say that the engine uses pre-credit. Called right after
// TakeEngineSeat it is one piece of news for the peers, who ask for a second one
// seconds later only. The engine steers rocev2.ControlQPN when it has sockets; until
// then what comes is dropped, and sent again.
func (s *EngineSeat) AnnounceCredit() { setCaps(s.cfg, uint32(bpf.CapCredit), true) }

// Unsteer has ingress pass them to the host's stack; Close did that for all.
func (s *EngineSeat) Unsteer(qpn uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.qpns[qpn]; !ok || s.closed {
		return nil
	}
	delete(s.qpns, qpn)
	atomic.StoreUint32(&s.cfg.Steered, uint32(len(s.qpns)))
	if err := s.att.Maps.SteerTable.Delete(qpn); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("%s: queue pair %#x: %w", s.att.State.Interface, qpn, err)
	}
	return nil
}

// Sync reports what the engine sent to any number of destinations and fills in what
// the table says of them. One call at a time.
func (s *EngineSeat) Sync(slots []bpf.EngineSlot) error {
	for len(slots) > 0 {
		n := min(len(slots), bpf.EngineSlots)
		if err := s.sync.Run(slots[:n]); err != nil {
			return err
		}
		slots = slots[n:]
	}
	return nil
}

// Close takes back all that the engine's presence changed, and the seat is free. The
// attachment stays open.
func (s *EngineSeat) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := clearSteering(s.att, s.cfg)
	s.lock.release()
	return errors.Join(err, s.cfg.Close())
}

// clearSteering removes all that an engine has put into the maps.
func clearSteering(a *Attachment, cfg *LiveConfig) error {
	setCaps(cfg, uint32(bpf.CapSACK|bpf.CapCredit), false)
	atomic.StoreUint32(&cfg.Steered, 0)
	var qpns []uint32
	var qpn uint32
	var value bpf.Steer
	it := a.Maps.SteerTable.Iterate()
	for it.Next(&qpn, &value) {
		qpns = append(qpns, qpn)
	}
	errs := []error{it.Err()}
	for _, q := range qpns {
		errs = append(errs, a.Maps.SteerTable.Delete(q))
	}
	// Sockets leave the map when they are closed, however their process ended.
	for q := range a.Maps.Xsks.MaxEntries() {
		if err := a.Maps.Xsks.Delete(q); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: clear the engine's entries: %w", a.State.Interface, err)
	}
	return nil
}

// setCaps changes what HELLO says of this host. The agent sees it at its next turn
// and tells the peers.
func setCaps(cfg *LiveConfig, bits uint32, on bool) {
	for {
		old := atomic.LoadUint32(&cfg.Caps)
		caps := old | bits
		if !on {
			caps = old &^ bits
		}
		if atomic.CompareAndSwapUint32(&cfg.Caps, old, caps) {
			return
		}
	}
}

// CleanEngine removes what an engine that was killed has left on an interface. It
// does nothing while one runs, and reports whether there was something.
func CleanEngine(a *Attachment) (bool, error) {
	cfg, err := a.LiveConfig()
	if err != nil {
		return false, err
	}
	defer cfg.Close()
	if atomic.LoadUint32(&cfg.Caps)&uint32(bpf.CapSACK) == 0 && atomic.LoadUint32(&cfg.Steered) == 0 {
		return false, nil
	}
	lock, err := takeEngineLease(a.opts.RunDir, a.State.Interface)
	if errors.Is(err, ErrEngineRunning) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.release()
	return true, clearSteering(a, cfg)
}

// ErrEngineRunning says that an interface has an engine.
var ErrEngineRunning = errors.New("an engine is running already")

func takeEngineLease(runDir, ifname string) (*lease, error) {
	l, err := takeLease(runDir, ifname, leaseEngine)
	if errors.Is(err, errLeased) {
		return nil, fmt.Errorf("%s: %w, %w: an interface has one at a time; end that first", ifname, ErrEngineRunning, err)
	}
	return l, err
}
